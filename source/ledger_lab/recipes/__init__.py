"""Library-neutral recipes, and their translations to each library's configuration."""

from ledger_lab.recipes.ant import ANT, STOCK_ANT
from ledger_lab.recipes.cartpole import CARTPOLE, STOCK_CARTPOLE
from ledger_lab.recipes.dialect import Dialect, Only, Setting
from ledger_lab.recipes.equivalence import equivalence_table
from ledger_lab.recipes.humanoid import HUMANOID
from ledger_lab.recipes.lift import LIFT
from ledger_lab.recipes.navigation import NAVIGATION
from ledger_lab.recipes.ppo import PpoRecipe
from ledger_lab.recipes.reach import REACH
from ledger_lab.recipes.scaling import scaled_learning_rate
from ledger_lab.recipes.to_rl_games import RL_GAMES, to_rl_games
from ledger_lab.recipes.to_rsl_rl import RSL_RL, to_rsl_rl
from ledger_lab.recipes.to_skrl import SKRL, to_skrl
from ledger_lab.recipes.velocity import velocity

DIALECTS = (RSL_RL, RL_GAMES, SKRL)
"""All libraries that recipes are translated to, in the order of their columns in the documentation."""

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


def dialect_of(library: str) -> Dialect:
    """Return the dialect of a library: where it keeps the fields of a recipe.

    Args:
        library: Name on the command line.
    """
    return next(dialect for dialect in DIALECTS if dialect.library == library)


__all__ = [
    "ANT",
    "CARTPOLE",
    "DIALECTS",
    "RECIPES",
    "RL_GAMES",
    "RSL_RL",
    "SKRL",
    "STOCK_ANT",
    "STOCK_CARTPOLE",
    "Dialect",
    "Only",
    "PpoRecipe",
    "Setting",
    "dialect_of",
    "equivalence_table",
    "scaled_learning_rate",
    "to_rl_games",
    "to_rsl_rl",
    "to_skrl",
]
