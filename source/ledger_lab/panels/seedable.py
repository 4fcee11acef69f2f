"""Checks that a seed determines the episodes of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ledger_lab.errors import UserError
from ledger_lab.panels.physics import is_newton, physics_name

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg


OF_ALL_ENVIRONMENTS = frozenset(
    {
        "isaaclab.envs.mdp.actions.rmpflow_task_space_actions:RMPFlowAction",
        "isaaclab.envs.mdp.events:randomize_visual_color",
        "isaaclab.envs.mdp.events:randomize_visual_texture_material",
        "isaaclab_tasks.contrib.keyboard.mdp.commands.typing_commands:LetterTypingCommand",
        "isaaclab_tasks.contrib.nist.mdp.events:reset_end_effector_around_asset",
        "isaaclab_tasks.contrib.stack.mdp.stack_events:randomize_rigid_objects_in_focus",
        "isaaclab_tasks.contrib.stack.mdp.stack_events:randomize_scene_lighting_domelight",
        "isaaclab_tasks.contrib.stack.mdp.stack_events:randomize_visual_texture_material",
        "isaaclab_tasks.core.lift.mdp.events:conditional_reset",
        "isaaclab_tasks.core.lift.mdp.observations:object_point_cloud_b",
        "isaaclab_tasks.core.reorient.mdp.observations:ShadowHandCameraFeatures",
    }
)
"""Terms of Isaac Lab whose state all environments share, or that draw outside of torch's stream."""

_GRAVITY = "isaaclab.envs.mdp.events:randomize_physics_scene_gravity"
"""An event that changes single worlds of Newton, but always all environments of other engines."""


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
            yield (
                f"choice among variants of scene entity {name!r} ({type(entity.spawn).__name__}; choose one "
                "of them, with presets=NAME if the task has presets)"
            )
    if len(env_cfg.scene.clone_cfg.clone_combinations) > 1:
        yield "choice among env.scene.clone_cfg.clone_combinations"
    for part in ("actions", "commands", "events", "observations", "terminations"):
        for path, called in _called(getattr(env_cfg, part, None), part):
            place = _place(called)
            name = place.rpartition(":")[2]
            if place in OF_ALL_ENVIRONMENTS:
                yield f"{path} ({name}: all environments share its state or its random numbers)"
            if place == _GRAVITY and not is_newton(env_cfg):
                yield f"{path} ({name}: all environments of {physics_name(env_cfg)} have the same gravity)"


def _called(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes of a group's terms, each with its path."""
    for name, term in _terms(group):
        called = getattr(term, "func", None) or getattr(term, "class_type", None)
        if called is None:
            yield from _called(term, f"{path}.{name}")
        else:
            yield f"{path}.{name}", called


def _place(called: Any) -> str:
    """Return the module and the name of a function or class, which a configuration may name by another module."""
    from isaaclab.utils.string import string_to_callable

    if isinstance(called, str):
        known = {place.rpartition(":")[2] for place in (*OF_ALL_ENVIRONMENTS, _GRAVITY)}
        if called.rpartition(":")[2] not in known:
            return called
        called = string_to_callable(str(called))
    return f"{getattr(called, '__module__', '')}:{getattr(called, '__qualname__', '')}"


def _terms(group: Any) -> list[tuple[str, Any]]:
    """Return the members of a group that are configurations themselves."""
    if group is None:
        return []
    members = group if isinstance(group, Mapping) else vars(group)
    return [(name, value) for name, value in members.items() if hasattr(value, "__dataclass_fields__")]
