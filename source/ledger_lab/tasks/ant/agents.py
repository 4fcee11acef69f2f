"""Agent configurations of the ant, translated from its recipe."""

from ledger_lab.recipes.ant import ANT
from ledger_lab.tasks.translations import translations

rsl_rl_cfg, rl_games_cfg, skrl_cfg = translations(ANT)
