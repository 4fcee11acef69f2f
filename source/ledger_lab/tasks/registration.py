"""How a task is registered with Gymnasium, so that Isaac Lab's commands find it as ours do."""

from collections.abc import Mapping

import gymnasium as gym


def register(
    task: str, package: str, *, env_cfg: str, panel: str, agents: str = "cfg", variants: Mapping[str, str] | None = None
) -> None:
    """Register a task.

    Args:
        task: Its id.
        package: Where its modules ``env_cfg`` and ``agents`` are.
        env_cfg: What ``env_cfg`` calls the class or function that returns the environment's configuration.
        panel: Name of the panel that judges it.
        agents: What the names of its configurations in ``agents`` end with, after the library's.
        variants: Other configurations in ``agents``, for ``--agent``, by names like ``rsl_rl_with_symmetry``.
    """
    libraries = ("rsl_rl", "rl_games", "skrl")
    gym.register(
        id=task,
        entry_point="isaaclab.envs:ManagerBasedRLEnv",
        disable_env_checker=True,
        kwargs={
            "env_cfg_entry_point": f"{package}.env_cfg:{env_cfg}",
            **{f"{name}_cfg_entry_point": f"{package}.agents:{name}_{agents}" for name in libraries},
            **{f"{name}_cfg_entry_point": f"{package}.agents:{cfg}" for name, cfg in (variants or {}).items()},
            "default_agent": "rsl_rl",
            "default_panel": panel,
        },
    )
