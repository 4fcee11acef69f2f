"""How a task is learned: library-neutral recipes and their pure translations to each library's configuration."""

from ledger_lab.recipes.cartpole import CARTPOLE, STOCK_CARTPOLE, STOCK_CARTPOLE_NUM_ENVS
from ledger_lab.recipes.ppo import PpoRecipe
from ledger_lab.recipes.to_rsl_rl import RSL_RL_SETTINGS, to_rsl_rl

__all__ = [
    "CARTPOLE",
    "RSL_RL_SETTINGS",
    "STOCK_CARTPOLE",
    "STOCK_CARTPOLE_NUM_ENVS",
    "PpoRecipe",
    "to_rsl_rl",
]
