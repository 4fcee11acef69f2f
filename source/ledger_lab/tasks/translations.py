"""Translations of a task's recipe to each library's own configuration."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Any

from ledger_lab.ledger.libraries import LIBRARIES, agent_key, dialect_of
from ledger_lab.tasks.recipes import Recipe


def agent_entry_points(*recipes: Recipe) -> dict[str, Callable[[], Any]]:
    """Return recipes as the agent configurations of all libraries, by the keys that a task registers them under.

    Args:
        recipes: The recipes, at most one per algorithm.

    Raises:
        ValueError: If two recipes are for the same algorithm.
    """
    by_algorithm = {recipe.algorithm: recipe for recipe in recipes}
    if len(by_algorithm) < len(recipes):
        raise ValueError("a task has at most one recipe per algorithm")
    return {
        agent_key(library, algorithm): agent_entry_point(library, recipe)
        for library, known in LIBRARIES.items()
        for algorithm, recipe in by_algorithm.items()
        if algorithm in known.algorithms
    }


def agent_entry_point(library: str, recipe: Recipe, symmetry: str | None = None) -> Callable[[], Any]:
    """Return a function that returns a recipe as a library's configuration; Isaac Lab looks for its source file.

    Args:
        library: The library.
        recipe: The recipe.
        symmetry: Function that returns the mirror images of samples, as ``module:name``, for a configuration of RSL-RL
            that also learns from them.
    """

    def agent_cfg() -> Any:  # noqa: ANN401 - the library's own type
        choices = {} if symmetry is None else {"symmetry": pkgutil.resolve_name(symmetry)}
        return dialect_of(library, recipe.algorithm).config(recipe, **choices)

    return agent_cfg
