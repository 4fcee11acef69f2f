"""The tasks that are registered with Isaac Lab, ours and those of other packages."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import gymnasium as gym
from isaaclab.cli import load_external_tasks

from ledger_lab.errors import UserError, nearest
from ledger_lab.recipes import DIALECTS

STOCK_TASKS = "isaaclab_tasks"
"""The package with the tasks that come with Isaac Lab."""


def registered_tasks() -> list[str]:
    """Return the Gymnasium ids of all tasks that are registered with Isaac Lab."""
    try:
        load_external_tasks()
    except Exception as error:
        raise UserError(f"{_broken_package()} cannot be imported: {type(error).__name__}: {error}") from error
    import isaaclab_tasks  # noqa: F401 - registers the stock tasks

    import ledger_lab.tasks  # noqa: F401 - and ours, where the package is on the path but not installed

    return sorted(name for name, spec in gym.registry.items() if "env_cfg_entry_point" in spec.kwargs)


def _broken_package() -> str:
    """Return the name of the first task package that cannot be imported."""
    for entry_point in entry_points(group="isaaclab.tasks"):
        try:
            entry_point.load()
        except Exception:  # whatever a foreign package raises; the caller has the error, and tells it
            owner = entry_point.dist.name if entry_point.dist else entry_point.name
            return f"task package {owner} (entry point {entry_point.name} = {entry_point.value})"
    return "a task package"


def require_task(task: str, library: str, agent: str | None = None) -> dict[str, Any]:
    """Return the keyword arguments that a task is registered with.

    Args:
        task: Gymnasium id.
        library: Library to train it with.
        agent: Name under which the agent configuration is registered, if it is not the default one.

    Raises:
        UserError: If the task is unknown, or has no such configuration for the library.
    """
    known = registered_tasks()
    if task not in known:
        raise UserError(f"unknown task {task!r}: {nearest(task, known)} (scripts/list_envs.py lists them)")
    kwargs: dict[str, Any] = gym.spec(task).kwargs
    if f"{library}_cfg_entry_point" not in kwargs:
        raise UserError(f"task {task} has no configuration for {library}: it registers no {library}_cfg_entry_point")
    if agent is not None:
        own = [name for name in kwargs if name.startswith(f"{library}_") and name.endswith("cfg_entry_point")]
        if agent not in own:
            raise UserError(f"--agent {agent}: no configuration of {task} for {library}: {nearest(agent, own)}")
    return kwargs


def task_package(task: str) -> str:
    """Return the top-level package or module of a task's environment configuration.

    Args:
        task: Gymnasium id of a registered task.
    """
    entry = gym.spec(task).kwargs["env_cfg_entry_point"]
    module: str = entry.partition(":")[0] if isinstance(entry, str) else entry.__module__
    return module.partition(".")[0]


def require_task_default(task: str) -> str:
    """Return the default library of a task; RSL-RL if it names none."""
    preferred = gym.spec(task).kwargs.get("default_agent") if task in registered_tasks() else None
    return preferred if preferred in {dialect.library for dialect in DIALECTS} else "rsl_rl"
