"""Registration of tasks with Gymnasium, so that Isaac Lab's commands find them, too."""

import gymnasium as gym


def register(
    task: str, package: str, *, env_cfg: str, panel: str, agents: str = "cfg", symmetric: bool = False
) -> None:
    """Register a task.

    Args:
        task: Gymnasium id.
        package: Package that contains the modules ``env_cfg`` and ``agents``.
        env_cfg: Name of the class or function in ``env_cfg`` that returns the environment's configuration.
        panel: Name of its panel.
        agents: Suffix of the names of its configurations in ``agents``, after the name of the library.
        symmetric: Whether there is another configuration of RSL-RL, for ``--agent``, that also learns from mirrored
            samples.

    Raises:
        ValueError: If the id is already registered.
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
