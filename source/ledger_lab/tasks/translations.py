"""Translations of a task's recipe to each library's own configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger_lab.recipes import LIBRARIES, PpoRecipe, dialect_of


def agent_entry_points(recipe: PpoRecipe) -> dict[str, Callable[[], Any]]:
    """Return a recipe as the agent configurations of all libraries, by the keys that a task registers them under.

    Args:
        recipe: The recipe.
    """
    return {f"{library}_cfg_entry_point": _entry_point(library, recipe) for library in LIBRARIES}


def _entry_point(library: str, recipe: PpoRecipe) -> Callable[[], Any]:
    """Return a function that returns a recipe as a library's configuration; Isaac Lab looks for its source file."""

    def agent_cfg() -> Any:  # noqa: ANN401 - the library's own type
        return dialect_of(library).config(recipe)

    return agent_cfg
