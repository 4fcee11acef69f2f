"""Checks that a seed determines the episodes of a task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ledger_lab.errors import UserError

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


def require_seedable(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Refuse tasks with parts that a reset does not return to a state determined by a seed.

    A term whose random numbers cannot be determined by a seed is found later, when it draws them.

    Args:
        env_cfg: Resolved configuration of the environment.

    Raises:
        UserError: If the task has such a part.
    """
    for leak in _leaks(env_cfg):
        raise UserError(
            f"this task cannot be scored on a panel, because its {leak} would not depend on the seed alone: train with "
            "--no_eval"
        )


def _leaks(env_cfg: ManagerBasedRLEnvCfg) -> Iterator[str]:
    """Yield descriptions of everything that a seed does not determine.

    Isaac Lab gives each slot its variant of an asset when it builds the scene, in blocks from the first slot to the
    last. Training slots would get other variants than held-out slots.
    """
    from isaaclab.cloner import num_spawn_variants

    for name, event in _terms(env_cfg.events):
        if event.mode == "prestartup":
            yield f"prestartup event {name!r} (drawn once, before the simulation starts)"
    if getattr(env_cfg, "compute_final_obs", False):
        yield "random observations (env.compute_final_obs computes them once more at every reset)"
    for name, entity in _terms(env_cfg.scene):
        for kind in ("Deformable", "Cable", "Collection", "SurfaceGripper"):
            if kind in type(entity).__name__:
                yield f"scene entity {name!r} ({type(entity).__name__})"
        if num_spawn_variants(getattr(entity, "spawn", None)) > 1:
            yield f"choice among variants of scene entity {name!r} ({type(entity.spawn).__name__})"
    if len(env_cfg.scene.clone_cfg.clone_combinations) > 1:
        yield "choice among env.scene.clone_cfg.clone_combinations"


def _terms(group: Any) -> list[tuple[str, Any]]:
    """Return the members of a group that are configurations themselves."""
    if group is None:
        return []
    return [(name, value) for name, value in vars(group).items() if hasattr(value, "__dataclass_fields__")]
