"""Translations of a task's recipe to each library's own configuration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ledger_lab.recipes import PpoRecipe, to_rl_games, to_skrl
from ledger_lab.recipes.to_rsl_rl import native_config


def translations(recipe: PpoRecipe) -> tuple[Callable[[], object], Callable[[], Any], Callable[[], Any]]:
    """Return functions that return a recipe as a configuration of RSL-RL, rl_games and SKRL.

    Args:
        recipe: The recipe.
    """
    return partial(native_config, recipe), partial(to_rl_games, recipe), partial(to_skrl, recipe)
