"""Which tasks' episodes can be fixed by a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ledger_lab.errors import UserError

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


def require_seedable(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Refuse tasks with parts that a reset doesn't bring back to a state that a seed fixes.

    What draws random numbers in a way that can't be fixed is found later, when it draws.

    Args:
        env_cfg: Resolved configuration of the environment.

    Raises:
        UserError: If the task has such a part.
    """
    for leak in _leaks(env_cfg):
        raise UserError(f"this task cannot be judged by a panel: its {leak} would not depend on the seed alone")


def _leaks(env_cfg: ManagerBasedRLEnvCfg) -> Iterator[str]:
    """Name everything that a seed doesn't fix."""
    for name, event in _terms(env_cfg.events):
        if event.mode == "prestartup":
            yield f"prestartup event {name!r} (drawn once, before the simulation starts)"
    if getattr(env_cfg, "compute_final_obs", False):
        yield "random observations (env.compute_final_obs computes them more often when somebody resets)"
    for name, entity in _terms(env_cfg.scene):
        for kind in ("Deformable", "Cable", "Collection", "SurfaceGripper"):
            if kind in type(entity).__name__:
                yield f"scene entity {name!r} ({type(entity).__name__})"


def _terms(group: Any) -> list[tuple[str, Any]]:
    """Return the settings of a group that are configurations themselves."""
    if group is None:
        return []
    return [(name, value) for name, value in vars(group).items() if hasattr(value, "__dataclass_fields__")]
