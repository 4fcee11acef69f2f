"""Describes everything about a simulation that can change the outcome of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger_lab.ledger.meters import package_versions
from ledger_lab.panels.ground import has_held_out_ground
from ledger_lab.panels.physics import physics_name
from ledger_lab.training.runners.plain_config import plain_config, plain_sha256

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_ENGINE_PACKAGES = {
    "newton": ("newton", "warp-lang", "mujoco", "mujoco-warp"),
    "ovphysx": ("ovphysx",),
    "physx": ("isaacsim",),
}
_PHYSICS_NEUTRAL = frozenset(
    {"class_type", "cooked_collider_cache_dir", "debug_mode", "launcher_type", "use_cuda_graph"}
)
"""Settings of a physics engine that change speed, output or caches, but no trajectory."""

_SOLVER_NEUTRAL = frozenset({"class_type", "cpu_threads", "refuse_concave_meshes"})
"""Settings of a solver that change no trajectory of a simulation that starts, or that are described separately."""

_SIMULATION_NEUTRAL = frozenset(
    {
        *("create_stage_in_memory", "device", "dt", "log_dir", "logging_level", "save_logs_to_file", "use_fabric"),
        *("physics", "render", "render_interval", "default_visualizer_cfg", "visualizer_cfgs"),
    }
)
"""Settings of the simulation that change no trajectory, or that are described separately."""

_ENVIRONMENT_PARTS = ("scene", "actions", "observations", "events", "terminations", "commands")
_SLOT_SETTINGS = frozenset({"num_envs", "env_spacing", "debug_vis", "enable_corruption"})
"""Settings that a held-out simulation chooses on its own, and the spacing, which is described separately."""


def describe_simulation(env_cfg: ManagerBasedRLEnvCfg) -> dict[str, Any]:
    """Return the description of a simulation that enters a panel's identity.

    Args:
        env_cfg: The resolved configuration.

    Returns:
        Plain JSON values. Large parts, and asset files, appear by their hashes.
    """
    simulation = {key: value for key, value in plain_config(env_cfg.sim).items() if key not in _SIMULATION_NEUTRAL}
    physics = {key: value for key, value in plain_config(env_cfg.sim.physics).items() if key not in _PHYSICS_NEUTRAL}
    if isinstance(solver := physics.get("solver_cfg"), dict):
        physics["solver_cfg"] = {key: value for key, value in solver.items() if key not in _SOLVER_NEUTRAL}
    engine = physics_name(env_cfg)
    packages = ("isaaclab", "torch", *_ENGINE_PACKAGES.get(engine.partition("/")[0], ()))
    parts = {
        name: _without_slots(plain_config(part))
        for name in _ENVIRONMENT_PARTS
        if (part := getattr(env_cfg, name, None)) is not None
    }
    ground = {"ground": "held_out"} if has_held_out_ground(env_cfg) else {}
    return {
        "physics": {"engine": engine, "settings": physics, "simulation": simulation},
        "time_step": {"physics_s": env_cfg.sim.dt, "decimation": env_cfg.decimation},
        "environment_sha256": {name: plain_sha256(part) for name, part in parts.items()},
        "order": {name: _order(part, depth=2 if name == "observations" else 1) for name, part in parts.items()},
        "task_episode_length_s": env_cfg.episode_length_s,
        "env_spacing_m": env_cfg.scene.env_spacing,
        **ground,
        "packages": {name: version for name, version in package_versions(packages).items() if name != "python"},
    }


def _order(part: dict[str, Any], depth: int) -> list[str]:
    """Return the names of a part's terms in the order of the configuration, which its hash leaves out.

    Isaac Lab concatenates observations and actions, and runs events and commands, in this order.

    Args:
        part: Plain configuration of the part.
        depth: Levels of names: 1 for terms, 2 for groups of terms, which give names like ``policy.joint_pos``.
    """
    named = {name: settings for name, settings in part.items() if isinstance(settings, dict)}
    if depth == 1:
        return list(named)
    return [f"{name}.{inner}" for name, settings in named.items() for inner in _order(settings, depth - 1)]


def _without_slots(value: Any) -> Any:
    """Return a part of a configuration without the settings that a held-out simulation chooses on its own."""
    if isinstance(value, dict):
        return {key: _without_slots(item) for key, item in value.items() if key not in _SLOT_SETTINGS}
    return [_without_slots(item) for item in value] if isinstance(value, list) else value
