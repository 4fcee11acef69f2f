"""Agent configurations of the reaching arm, translated from its recipe."""

from ledger_lab.recipes.reach import REACH
from ledger_lab.tasks.translations import translations

rsl_rl_cfg, rl_games_cfg, skrl_cfg = translations(REACH)
