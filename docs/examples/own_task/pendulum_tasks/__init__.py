"""Registers the task when Isaac Lab or LedgerLab imports this package."""

from pathlib import Path

import gymnasium as gym

from ledger_lab.tasks.registered import agent_entry_points
from pendulum_tasks.agents import RECIPE

gym.register(
    id="Pendulum-SwingUp-v0",
    entry_point="isaaclab.envs:ManagerBasedRLEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.env_cfg:PendulumEnvCfg",
        **agent_entry_points(RECIPE),
        "default_agent": "rsl_rl",
        "default_panel": str(Path(__file__).with_name("pendulum_v1.toml")),
    },
)
