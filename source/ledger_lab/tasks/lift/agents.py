"""Agent configurations of the lifting arm, translated from its recipe."""

from ledger_lab.recipes.lift import LIFT
from ledger_lab.tasks.translations import translations

rsl_rl_cfg, rl_games_cfg, skrl_cfg = translations(LIFT)
