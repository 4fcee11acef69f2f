"""Library-neutral recipes, and the libraries that they are translated to."""

from ledger_lab.off_policy.recipe import OffPolicyRecipe, SacRecipe, Td3Recipe
from ledger_lab.tasks.recipes.ant import ANT, ANT_SAC, ANT_TD3, STOCK_ANT
from ledger_lab.tasks.recipes.cartpole import CARTPOLE, CARTPOLE_SAC, CARTPOLE_TD3, STOCK_CARTPOLE
from ledger_lab.tasks.recipes.dialect import Dialect, Only, Recipe, Setting
from ledger_lab.tasks.recipes.humanoid import HUMANOID
from ledger_lab.tasks.recipes.libraries import LIBRARIES, Library, dialect_of, dialects
from ledger_lab.tasks.recipes.lift import LIFT
from ledger_lab.tasks.recipes.navigation import NAVIGATION
from ledger_lab.tasks.recipes.ppo import PpoRecipe
from ledger_lab.tasks.recipes.reach import REACH, REACH_SAC, REACH_TD3
from ledger_lab.tasks.recipes.velocity import FLAT_ANYMAL_C_SAC, FLAT_ANYMAL_C_TD3, velocity

RECIPES = {
    "LedgerLab-Cartpole": CARTPOLE,
    "LedgerLab-Ant": ANT,
    "LedgerLab-Humanoid": HUMANOID,
    "LedgerLab-Velocity-Flat-AnymalC": velocity("flat_anymal_c"),
    "LedgerLab-Velocity-Rough-AnymalC": velocity("rough_anymal_c"),
    "LedgerLab-Velocity-Flat-Go2": velocity("flat_go2"),
    "LedgerLab-Navigation-Flat-AnymalC": NAVIGATION,
    "LedgerLab-Reach-Franka": REACH,
    "LedgerLab-Lift-Cube-Franka": LIFT,
}
"""The recipe of each task of LedgerLab."""

OFF_POLICY_RECIPES: dict[str, tuple[OffPolicyRecipe, ...]] = {
    "LedgerLab-Ant": (ANT_SAC, ANT_TD3),
    "LedgerLab-Cartpole": (CARTPOLE_SAC, CARTPOLE_TD3),
    "LedgerLab-Reach-Franka": (REACH_SAC, REACH_TD3),
    "LedgerLab-Velocity-Flat-AnymalC": (FLAT_ANYMAL_C_SAC, FLAT_ANYMAL_C_TD3),
}
"""The recipes of each task for algorithms with a replay memory, of the tasks that have any."""

__all__ = [
    "OFF_POLICY_RECIPES",
    "OffPolicyRecipe",
    "ANT",
    "CARTPOLE",
    "CARTPOLE_SAC",
    "CARTPOLE_TD3",
    "LIBRARIES",
    "RECIPES",
    "STOCK_ANT",
    "STOCK_CARTPOLE",
    "Dialect",
    "Library",
    "Only",
]
__all__ += ["PpoRecipe", "Recipe", "SacRecipe", "Setting", "Td3Recipe", "dialect_of", "dialects"]
