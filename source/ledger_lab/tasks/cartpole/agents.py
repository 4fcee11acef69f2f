"""Agent configurations of the cart-pole, translated from its recipe."""

from ledger_lab.recipes.cartpole import CARTPOLE
from ledger_lab.tasks.translations import translations

rsl_rl_cfg, rl_games_cfg, skrl_cfg = translations(CARTPOLE)
