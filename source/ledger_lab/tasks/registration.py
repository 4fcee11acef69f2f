"""How a task is registered with Gymnasium, so that Isaac Lab's commands find it as ours do."""

import gymnasium as gym


def register(task: str, package: str, *, env_cfg: str, panel: str, agents: str = "cfg") -> None:
    """Register a task.

    Args:
        task: Its id.
        package: Where its modules ``env_cfg`` and ``agents`` are.
        env_cfg: What ``env_cfg`` calls the class or function that returns the environment's configuration.
        panel: Name of the panel that judges it.
        agents: What the names of its configurations in ``agents`` end with, after the library's.
    """
    libraries = ("rsl_rl", "rl_games", "skrl")
    gym.register(
        id=task,
        entry_point="isaaclab.envs:ManagerBasedRLEnv",
        disable_env_checker=True,
        kwargs={
            "env_cfg_entry_point": f"{package}.env_cfg:{env_cfg}",
            **{f"{name}_cfg_entry_point": f"{package}.agents:{name}_{agents}" for name in libraries},
            "default_agent": "rsl_rl",
            "default_panel": panel,
        },
    )
