"""Registers the task when Isaac Lab or LedgerLab imports this package."""

from pathlib import Path

import gymnasium as gym

gym.register(
    id="Pendulum-SwingUp-v0",
    entry_point="isaaclab.envs:ManagerBasedRLEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.env_cfg:PendulumEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_cfg",
        "rl_games_cfg_entry_point": f"{__name__}.agents:rl_games_cfg",
        "skrl_cfg_entry_point": f"{__name__}.agents:skrl_cfg",
        "default_agent": "rsl_rl",
        "default_panel": str(Path(__file__).with_name("pendulum_v1.toml")),
    },
)
