"""Translations of a task's recipe to each library's own configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger_lab.recipes import LIBRARIES, OffPolicyRecipe, PpoRecipe, Recipe, dialect_of
from ledger_lab.recipes.libraries import PPO, agent_key


def agent_entry_points(recipe: PpoRecipe, off_policy: OffPolicyRecipe | None = None) -> dict[str, Callable[[], Any]]:
    """Return recipes as the agent configurations of all libraries, by the keys that a task registers them under.

    Args:
        recipe: The recipe of PPO.
        off_policy: The recipe of the other algorithms; ``None`` if the task has none.
    """
    return {
        agent_key(library, algorithm): _entry_point(library, algorithm, used)
        for library, known in LIBRARIES.items()
        for algorithm in known.algorithms
        if (used := recipe if algorithm == PPO else off_policy) is not None
    }


def _entry_point(library: str, algorithm: str, recipe: Recipe) -> Callable[[], Any]:
    """Return a function that returns a recipe as a library's configuration; Isaac Lab looks for its source file."""

    def agent_cfg() -> Any:  # noqa: ANN401 - the library's own type
        return dialect_of(library, algorithm).config(recipe)

    return agent_cfg
