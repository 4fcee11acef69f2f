"""How a task is registered with Gymnasium, so that Isaac Lab's commands find it as ours do."""

import gymnasium as gym


def register(
    task: str, package: str, *, env_cfg: str, panel: str, agents: str = "cfg", symmetric: bool = False
) -> None:
    """Register a task.

    Args:
        task: Its id.
        package: Where its modules ``env_cfg`` and ``agents`` are.
        env_cfg: What ``env_cfg`` calls the class or function that returns the environment's configuration.
        panel: Name of the panel that judges it.
        agents: What the names of its configurations in ``agents`` end with, after the library's.
        symmetric: Whether RSL-RL has a configuration besides that learns from mirrored samples, too, for ``--agent``.

    Raises:
        ValueError: If there is a task of this id.
    """
    if task in gym.registry:
        raise ValueError(f"{task} is registered already")
    names = {f"{library}_cfg_entry_point": f"{library}_{agents}" for library in ("rsl_rl", "rl_games", "skrl")}
    if symmetric:
        names["rsl_rl_with_symmetry_cfg_entry_point"] = f"rsl_rl_{agents}_with_symmetry"
    gym.register(
        id=task,
        entry_point="isaaclab.envs:ManagerBasedRLEnv",
        disable_env_checker=True,
        kwargs={
            "env_cfg_entry_point": f"{package}.env_cfg:{env_cfg}",
            **{entry_point: f"{package}.agents:{name}" for entry_point, name in names.items()},
            "default_agent": "rsl_rl",
            "default_panel": panel,
        },
    )
