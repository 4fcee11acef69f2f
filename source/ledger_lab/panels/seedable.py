"""Which tasks' episodes can be fixed by a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ledger_lab.errors import UserError

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

STATE_RESETS = frozenset(
    {
        "reset_joints_by_offset",
        "reset_joints_by_scale",
        "reset_root_state_uniform",
        "reset_root_state_with_random_orientation",
        "reset_scene_to_default",
    }
)
"""Isaac Lab's reset events that write nothing but poses, velocities and joint states."""


def require_seedable(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Refuse tasks whose episodes would depend on more than their seed.

    Args:
        env_cfg: Resolved configuration of the environment.

    Raises:
        UserError: If the task draws random numbers after the reset, or has state that a panel leaves alone.
    """
    for leak in _leaks(env_cfg):
        raise UserError(f"this task cannot be judged by a panel yet: its {leak} would not depend on the seed alone")


def _leaks(env_cfg: ManagerBasedRLEnvCfg) -> Iterator[str]:
    """Name everything that a seed doesn't fix."""
    for part, what in (("commands", "command"), ("curriculum", "curriculum term")):
        for name, _ in _terms(getattr(env_cfg, part, None)):
            yield f"{what} {name!r}"
    for name, event in _terms(env_cfg.events):
        function = str(getattr(event.func, "__name__", event.func)).rpartition(":")[2]
        if event.mode != "reset" or function not in STATE_RESETS or event.min_step_count_between_reset:
            yield f"{event.mode} event {name!r}"
    for name, entity in _terms(env_cfg.scene):
        for kind in ("Deformable", "Cable", "Collection", "SurfaceGripper", "RayCaster"):
            if kind in type(entity).__name__:
                yield f"scene entity {name!r} ({type(entity).__name__})"
        if getattr(entity, "terrain_type", None) == "generator":
            yield f"generated terrain {name!r}"
        for actuator, cfg in getattr(entity, "actuators", {}).items():
            if "Delayed" in type(cfg).__name__:
                yield f"delayed actuator {actuator!r} of {name!r}"


def _terms(group: Any) -> list[tuple[str, Any]]:
    """Return the settings of a group that are configurations themselves."""
    if group is None:
        return []
    return [(name, value) for name, value in vars(group).items() if hasattr(value, "__dataclass_fields__")]
