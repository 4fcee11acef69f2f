"""Describes what a program outside Isaac Lab needs to run a policy, from the managers of a live environment."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from isaaclab.envs import mdp
from isaaclab.managers import SceneEntityCfg

from ledger_lab.panels.direct import is_direct, own_settings
from ledger_lab.training.runners.description import plain_config

if TYPE_CHECKING:
    from isaaclab.assets import Articulation
    from isaaclab.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg

_LAWS = {
    "JointPositionAction": {"law": "affine", "target": "joint_pos"},
    "RelativeJointPositionAction": {"law": "affine", "target": "joint_pos", "relative_to": "joint_pos"},
    "JointVelocityAction": {"law": "affine", "target": "joint_vel"},
    "JointEffortAction": {"law": "affine", "target": "joint_effort"},
    "BinaryJointPositionAction": {"law": "binary", "target": "joint_pos"},
    "BinaryJointVelocityAction": {"law": "binary", "target": "joint_vel"},
}
"""How terms of these classes of Isaac Lab compute the targets of joints, by name: importing the classes starts Warp,
which prints a warning on a machine without a GPU. Classes derived from them may compute something else."""
_CONVENTIONS = {
    "units": "SI, angles in rad",
    "quaternions": "xyzw",
    "observation": "result of the function, then modifiers, clip, × scale, history; by term, in this order",
    "joints and bodies": "if a term names none, all of the articulation, in its order",
    "history": "oldest first; an episode begins with copies of its first observation",
    "action": "the law of a term gives the targets of its joints; the last action of a new episode is 0",
    "law affine": "target = clip(offset + scale × action), + relative_to.data if stated, which is read at read_hz",
    "law binary": "target = clip(close_command_expr where action < 0, else open_command_expr), both in the settings",
    "law null": "not described here; see class and settings",
}


def without_startup_events(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Remove the events that randomize robots once, because a contract states the nominal robot."""
    for name, term in vars(env_cfg.events).items() if env_cfg.events is not None else ():
        if getattr(term, "mode", None) in ("prestartup", "startup"):
            setattr(env_cfg.events, name, None)


def describe_interface(env: ManagerBasedRLEnv, groups: Sequence[str]) -> dict[str, Any]:
    """Describe the observations of a policy, and the effect of its actions.

    Args:
        env: The environment.
        groups: Observation groups that the policy reads, in the order of its flat observation.

    Returns:
        Plain JSON values, in SI units: rates, observations, actions and commands.
    """
    base = env.unwrapped
    contract = {
        "conventions": _CONVENTIONS,
        "rates": {
            "control_hz": round(1 / base.step_dt, 6),
            "physics_hz": round(1 / base.physics_dt, 6),
            "control_period_s": base.step_dt,
            "physics_period_s": base.physics_dt,
            "physics_steps_per_action": base.cfg.decimation,
        },
        "observations": list(_groups(base, groups)),
        "actions": list(_actions(base)),
        "commands": {name: base.command_manager.get_term(name).cfg for name in base.command_manager.active_terms},
    }
    plain: dict[str, Any] = plain_config(contract)
    return plain


def describe_articulations(env: ManagerBasedRLEnv) -> dict[str, Any]:
    """Describe the robots. Call this before the first reset, which may randomize them.

    Args:
        env: The environment.

    Returns:
        Plain JSON values, in SI units. Joints are in the order of terms that use all joints.
    """
    found = {name: _articulation(asset) for name, asset in env.unwrapped.scene.articulations.items()}
    plain: dict[str, Any] = plain_config(found)
    return plain


def _groups(env: ManagerBasedRLEnv, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Describe observation groups, with their places in the flat observation."""
    manager, start = env.observation_manager, 0
    for name in names:
        # The manager has no public access to the resolved configurations of its terms.
        cfgs, shapes = manager._group_obs_term_cfgs[name], manager.group_obs_term_dim[name]
        by_time = manager._group_obs_time_major[name]
        flat = not by_time and all(len(shape) == 1 for shape in shapes)
        stop, terms, at = start + int(torch.Size(manager.group_obs_dim[name]).numel()), [], start
        for term, cfg, shape in zip(manager.active_terms[name], cfgs, shapes, strict=True):
            terms.append(
                {
                    "name": term,
                    "slice": [at, at + shape[0]] if flat else None,
                    "shape": shape,
                    "function": _location(cfg.func),
                    "description": _first_line(cfg.func),
                    "params": _params(env, cfg.func, cfg.params),
                    "modifiers": [{"function": _location(m.func), "params": m.params} for m in cfg.modifiers or ()],
                    "clip": cfg.clip,
                    "scale": None if cfg.scale is None else cfg.scale.tolist(),
                    "trained_delay_steps": [cfg.delay_min_lag, cfg.delay_max_lag],
                    "history_steps": cfg.history_length,
                }
            )
            at += shape[0]
        yield {
            "group": name,
            "slice": [start, stop],
            "shape": manager.group_obs_dim[name],
            "history_order": "time" if by_time else "term",
            "terms": terms,
        }
        start = stop


def _actions(env: ManagerBasedRLEnv) -> Iterator[dict[str, Any]]:
    """Describe action terms, with their places among the actions."""
    start = 0
    if is_direct(env):
        task = type(env)
        yield {
            "name": "actions",
            "slice": [0, env.action_manager.total_action_dim],
            "class": _location(task._apply_action),
            "description": _first_line(task._apply_action),
            **dict.fromkeys(("law", "target", "relative_to", "joint_names", "scale", "offset", "clip")),
            "settings": own_settings(env.cfg),
        }
    for name in env.action_manager.active_terms:
        term = env.action_manager.get_term(name)
        stop, kind = start + term.action_dim, type(term)
        law = _LAWS.get(kind.__name__, {}) if kind is getattr(mdp, kind.__name__, None) else {}
        yield {
            "name": name,
            "slice": [start, stop],
            "class": _location(kind),
            "description": _first_line(kind),
            "law": law.get("law"),
            "target": law.get("target"),
            "relative_to": {"data": law["relative_to"], "read_hz": _targets_hz(env)} if "relative_to" in law else None,
            # Values that the term has resolved; a term of another kind may lack them.
            "joint_names": getattr(term, "_joint_names", None),
            "scale": _of_first_env(getattr(term, "_scale", None)),
            "offset": _of_first_env(getattr(term, "_offset", None)),
            "clip": _of_first_env(getattr(term, "_clip", None)),
            "settings": term.cfg,
        }
        start = stop


def _targets_hz(env: ManagerBasedRLEnv) -> float:
    """Return how often terms set targets [Hz]: per physics step, or per control step if the engine decimates."""
    return round(1 / (env.step_dt if env.sim.physics_manager.handles_decimation() else env.physics_dt), 6)


def _articulation(asset: Articulation) -> dict[str, Any]:
    """Describe the joints of a robot, in order, and its actuators."""
    per_joint = (
        "default_joint_pos",
        "default_joint_vel",
        "joint_pos_limits",
        "joint_vel_limits",
        "joint_effort_limits",
        "joint_stiffness",  # this and the next two belong to the engine's drives; other actuators state theirs below
        "joint_damping",
        "joint_armature",
    )
    return {
        "joint_names": asset.joint_names,
        **{name: _of_first_env(getattr(asset.data, name)) for name in per_joint},
        "actuators": [
            {"name": name, "joint_names": asset.find_joints(cfg.joint_names_expr)[1], "settings": cfg}
            for name, cfg in asset.cfg.actuators.items()
        ],
    }


def _params(env: ManagerBasedRLEnv, func: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return all parameters of a term, defaults included, with joints and bodies by their names."""
    signature = inspect.signature(func).parameters
    defaults = {
        name: parameter.default
        for name, parameter in signature.items()
        if name != "out" and parameter.default is not inspect.Parameter.empty
    }
    reads_joints = getattr(getattr(func, "_descriptor", None), "observation_type", None) == "JointState"
    return {
        name: _entity(env, value, reads_joints) if isinstance(value, SceneEntityCfg) else value
        for name, value in {**defaults, **given}.items()
    }


def _entity(env: ManagerBasedRLEnv, entity: SceneEntityCfg, reads_joints: bool) -> dict[str, Any]:
    """Name a part of the scene, and its joints and bodies in the order that a term reads them.

    Args:
        env: The environment.
        entity: The part, as the manager resolved it.
        reads_joints: Whether Isaac Lab says that the term returns a value per joint.

    Returns:
        The names. Joints and bodies of an articulation are left out if the term neither names them nor returns a value
        for each, because the description of the articulation lists them.
    """
    found: dict[str, Any] = {"name": entity.name}
    for kind in ("joint", "body"):
        names, chosen = getattr(env.scene[entity.name], f"{kind}_names", None), getattr(entity, f"{kind}_ids")
        # Isaac Lab replaces the indices of all joints by this slice, and keeps the list of names.
        every = isinstance(chosen, slice) and chosen == slice(None)
        asked = getattr(entity, f"{kind}_names") is not None or (kind == "joint" and reads_joints)
        if names is None or (every and not asked and entity.name in env.scene.articulations):
            continue
        found[f"{kind}_names"] = names[chosen] if isinstance(chosen, slice) else [names[int(i)] for i in chosen]
    return found


def _of_first_env(value: Any) -> Any:
    """Return a tensor's values of the first environment; other values unchanged."""
    value = getattr(value, "torch", value)
    return value[0].tolist() if isinstance(value, torch.Tensor) else value


def _location(what: Any) -> str:
    """Return module and qualified name of a function or class."""
    named = what if hasattr(what, "__qualname__") else type(what)
    return f"{named.__module__}:{named.__qualname__}"


def _first_line(what: Any) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(what) or "").partition("\n")[0]
