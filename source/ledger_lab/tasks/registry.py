"""The tasks that are registered with Isaac Lab, ours and those of other packages."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Mapping
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

import gymnasium as gym

from ledger_lab.errors import UserError, nearest, place_of
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.names import visible

STOCK_TASKS = "isaaclab_tasks"
"""The package with the tasks that come with Isaac Lab."""


@functools.cache
def load_task_packages() -> Mapping[str, str]:
    """Import the packages that register tasks: Isaac Lab's own, LedgerLab's and those of entry points.

    A package that cannot be imported is named on standard error and left out.

    Returns:
        The ids that a later package registered again, with one sentence about each. The first registration stays.
    """
    import isaaclab_tasks  # noqa: F401 - registers the stock tasks

    import ledger_lab.tasks.registered  # noqa: F401 - registers ours

    warnings.filterwarnings("ignore", message=".*Overriding environment .* already in registry")  # refused by name
    shadowed = {}
    for entry_point in entry_points(group="isaaclab.tasks"):
        owner = (entry_point.dist and entry_point.dist.metadata.get("Name")) or entry_point.name
        package = f"task package {owner} (entry point {entry_point.name} = {entry_point.value})"
        before = dict(gym.registry)
        try:
            entry_point.load()
        except Exception as error:  # noqa: BLE001 - whatever a foreign package raises, the other tasks work
            left_out = f"warning: {package} cannot be imported: {place_of(error)}; its tasks are left out"
            print(visible(left_out), file=sys.stderr)
        for task, spec in before.items():
            if gym.registry[task] is not spec:
                shadowed[task] = (
                    f"task {task} is registered twice: {package} registers it again. Rename the task in that package, "
                    "or uninstall the package"
                )
                gym.registry[task] = spec
    return MappingProxyType(shadowed)


def registered_tasks() -> list[str]:
    """Return the Gymnasium ids of all tasks that are registered with Isaac Lab."""
    load_task_packages()
    return sorted(name for name, spec in gym.registry.items() if "env_cfg_entry_point" in spec.kwargs)


def require_task(task: str, library: str, agent: str | None = None) -> dict[str, Any]:
    """Return the keyword arguments that a task is registered with.

    Args:
        task: Gymnasium id.
        library: Library to train it with.
        agent: Name under which the agent configuration is registered, if it is not the default.

    Raises:
        UserError: If the task is unknown or registered twice, or has no such configuration for the library.
    """
    known, shadowed = registered_tasks(), load_task_packages()
    if task not in known:
        raise UserError(f"unknown task {task!r}: {nearest(task, known)} (scripts/list_envs.py --all lists them)")
    if task in shadowed:
        raise UserError(shadowed[task])
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
    """Return the default library of a task; the first library if the task names none."""
    preferred = gym.spec(task).kwargs.get("default_agent") if task in registered_tasks() else None
    return preferred if preferred in LIBRARIES else next(iter(LIBRARIES))


def default_panel(task: str) -> str | None:
    """Return the panel that a registered task names, by a name of the project's or by the path of its file.

    Args:
        task: Gymnasium id.
    """
    panel: str | None = gym.spec(task).kwargs.get("default_panel")
    return panel


def num_envs_on_gpu(task: str) -> int | None:
    """Return the number of environments that a registered task recommends on a GPU; ``None`` if it names none.

    Args:
        task: Gymnasium id.
    """
    count: int | None = gym.spec(task).kwargs.get("num_envs_on_gpu")
    return count
