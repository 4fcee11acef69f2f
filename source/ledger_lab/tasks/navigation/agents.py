"""The agents' configurations of the navigating robot, translated from its one recipe."""

from ledger_lab.recipes.navigation import NAVIGATION
from ledger_lab.tasks.translations import translations

rsl_rl_cfg, rl_games_cfg, skrl_cfg = translations(NAVIGATION)
