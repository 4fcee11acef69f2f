"""Registration of tasks: each folder of the pack calls :func:`register` once per task."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_lab.tasks.recipes import PpoRecipe


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task of the pack."""

    entry_point: str = "isaaclab.envs:ManagerBasedRLEnv"
    """Class of the environment, as ``module:name``: Isaac Lab's own, or that of a direct-workflow task."""
    env_cfg: str
    """Function or class that returns the environment's configuration, as ``module:name``."""
    recipe: PpoRecipe
    """Recipe that configures every library."""
    panel: str
    """Name of its panel, which is in the folder ``panels`` beside its ``__init__.py``."""
    symmetry: str | None = None
    """Function that returns the mirror images of samples, as ``module:name``, from which PPO of RSL-RL also learns;
    ``None`` if there is none."""
    reached_on_gpu: tuple[str, ...] = ()
    """Libraries whose trainings reached their target on a GPU with the defaults (``records/gpu-h100`` and
    ``records/gpu-h200``)."""


TASKS: dict[str, Task] = {}
"""The tasks of the pack by their Gymnasium ids."""


def register(name: str, task: Task) -> None:
    """Add a task to the pack.

    Args:
        name: Gymnasium id.
        task: The task.

    Raises:
        ValueError: If the id is already registered.
    """
    if name in TASKS:
        raise ValueError(f"{name} is registered already")
    TASKS[name] = task
