"""The agents' configurations of the humanoid, translated from its one recipe."""

from ledger_lab.recipes.humanoid import HUMANOID
from ledger_lab.tasks.translations import translations

rsl_rl_cfg, rl_games_cfg, skrl_cfg = translations(HUMANOID)
