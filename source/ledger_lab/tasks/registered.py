"""Registers every task of the pack with Gymnasium, when this module is imported.

Isaac Lab loads it through the entry point group ``isaaclab.tasks``, so its own commands know these tasks too.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from ledger_lab.ledger.libraries import LIBRARIES, PPO, agent_key, dialect_of
from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.recipes import Recipe
from ledger_lab.wings import wing_part


def agent_entry_points(*recipes: Recipe, symmetry: str | None = None) -> dict[str, Callable[[], Any]]:
    """Return recipes as the agent configurations of all libraries, by the keys that a task registers them under.

    Args:
        recipes: The recipes, at most one per algorithm.
        symmetry: Function that returns the mirror images of samples, as ``module:name``. PPO of RSL-RL also learns from
            them; the other libraries cannot.

    Raises:
        ValueError: If two recipes are for the same algorithm.
    """
    by_algorithm = {recipe.algorithm: recipe for recipe in recipes}
    if len(by_algorithm) < len(recipes):
        raise ValueError("a task has at most one recipe per algorithm")
    return {
        agent_key(library, algorithm): agent_entry_point(
            library, recipe, symmetry if (library, algorithm) == ("rsl_rl", PPO) else None
        )
        for library, known in LIBRARIES.items()
        for algorithm, recipe in by_algorithm.items()
        if algorithm in known.algorithms
    }


def agent_entry_point(library: str, recipe: Recipe, symmetry: str | None = None) -> Callable[[], Any]:
    """Return a function that returns a recipe as a library's configuration; Isaac Lab looks for its source file.

    Args:
        library: The library.
        recipe: The recipe.
        symmetry: Function that returns the mirror images of samples, as ``module:name``, for RSL-RL.
    """

    def agent_cfg() -> Any:  # noqa: ANN401 - the library's own type
        choices = {} if symmetry is None else {"symmetry": pkgutil.resolve_name(symmetry)}
        return dialect_of(library, recipe.algorithm).config(recipe, **choices)

    return agent_cfg


NUM_ENVS_ON_GPU = 4096
"""Environments on a GPU: the most frequent number in the configurations of ``isaaclab_tasks`` (Isaac Lab 3.0)."""

_off_policy = wing_part("off-policy recipes")

for _id, _task in TASKS.items():
    _others = () if _off_policy is None else _off_policy(_id)
    gym.register(
        id=_id,
        entry_point=_task.entry_point,
        disable_env_checker=True,
        kwargs={
            "env_cfg_entry_point": _task.env_cfg,
            **agent_entry_points(_task.recipe, *_others, symmetry=_task.symmetry),
            "default_agent": "rsl_rl",
            "default_panel": _task.panel,
            "num_envs_on_gpu": NUM_ENVS_ON_GPU,
        },
    )
