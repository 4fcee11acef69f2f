"""Balance a pole on a cart that starts anywhere on its rail."""

import gymnasium as gym

gym.register(
    id="LedgerLab-Cartpole",
    entry_point="isaaclab.envs:ManagerBasedRLEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.env_cfg:CartpoleEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.agents:rsl_rl_cfg",
        "rl_games_cfg_entry_point": f"{__name__}.agents:rl_games_cfg",
        "skrl_cfg_entry_point": f"{__name__}.agents:skrl_cfg",
        "default_agent": "rsl_rl",
        "default_panel": "cartpole_v1",
    },
)
