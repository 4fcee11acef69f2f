"""Registration of tasks with Gymnasium, so that Isaac Lab's commands find them, too."""

from __future__ import annotations

import gymnasium as gym

from ledger_lab.tasks.recipes import OFF_POLICY_RECIPES, RECIPES
from ledger_lab.tasks.translations import agent_entry_points

NUM_ENVS_ON_GPU = 4096
"""Environments on a GPU: the most frequent number in the configurations of ``isaaclab_tasks`` (Isaac Lab 3.0)."""
SYMMETRIC_AGENT = "rsl_rl_with_symmetry_cfg_entry_point"
"""Name of the agent configuration of a task that also learns from mirrored samples."""
REACHED_ON_GPU = frozenset({
    ("LedgerLab-Cartpole", "rsl_rl", None),
    ("LedgerLab-Ant", "rsl_rl", None),
    ("LedgerLab-Velocity-Flat-AnymalC", "rsl_rl", SYMMETRIC_AGENT),
})  # fmt: skip
"""Task, library and agent (``None``: the usual one) of trainings that reached their target on a GPU with the defaults
(``records/gpu-h100`` and ``records/gpu-h200``)."""


def register(task: str, package: str, *, env_cfg: str, panel: str, symmetric: str | None = None) -> None:
    """Register a task; its recipe in :data:`~ledger_lab.tasks.recipes.RECIPES` configures every library.

    Its recipes in :data:`ledger_lab.tasks.recipes.OFF_POLICY_RECIPES` are its configurations for the other algorithms.

    Args:
        task: Gymnasium id.
        package: Package that contains the module ``env_cfg``.
        env_cfg: Name of the class or function in ``env_cfg`` that returns the environment's configuration.
        panel: Name of its panel.
        symmetric: Name of another configuration of RSL-RL in the module ``agents``, for ``--agent``, that also learns
            from mirrored samples; ``None`` if there is none.

    Raises:
        ValueError: If the id is already registered.
    """
    if task in gym.registry:
        raise ValueError(f"{task} is registered already")
    mirrored = {} if symmetric is None else {SYMMETRIC_AGENT: f"{package}.agents:{symmetric}"}
    gym.register(
        id=task,
        entry_point="isaaclab.envs:ManagerBasedRLEnv",
        disable_env_checker=True,
        kwargs={
            "env_cfg_entry_point": f"{package}.env_cfg:{env_cfg}",
            **agent_entry_points(RECIPES[task], *OFF_POLICY_RECIPES.get(task, ())),
            **mirrored,
            "default_agent": "rsl_rl",
            "default_panel": panel,
            "num_envs_on_gpu": NUM_ENVS_ON_GPU,
        },
    )
