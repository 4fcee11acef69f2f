"""Resolves the configurations of a task and of an agent, and checks every override before Isaac Lab applies it."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import isaaclab.utils.dict
from isaaclab.envs import DirectRLEnvCfg, ManagerBasedRLEnvCfg
from isaaclab.utils.string import callable_to_string
from isaaclab_tasks.utils import PresetCfg, resolve_task_config
from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry
from isaaclab_tasks.utils.preset_cli import enumerate_task_presets
from isaaclab_tasks.utils.preset_target import PresetTarget

from ledger_lab.errors import UserError, first_line, nearest, place_of
from ledger_lab.tasks.assets.local import use_local_ground
from ledger_lab.tasks.recipes.settings import ABSENT, children, follow
from ledger_lab.tasks.registry import task_package
from ledger_lab.training.runners.adapter import Adapter, load_adapter
from ledger_lab.training.runners.description import plain_config
from ledger_lab.training.runners.physics_engine import NATIVE_CHOICE, WARP_CHOICE, physics_choices
from ledger_lab.wings import required_part, wing_part

_SELECTORS = ("physics", "renderer", "presets")
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


def resolve_configs(
    task: str, library: str, overrides: Sequence[str], agent: str | None = None, *, play_mode: bool = False
) -> tuple[ManagerBasedRLEnvCfg, Any]:
    """Resolve the configurations of a task and of a library's agent, with presets and overrides applied.

    An override that gives an optional setting its default leaves the configuration as it is, and so its hash.

    Args:
        task: Gymnasium id of a registered task.
        library: The library.
        overrides: Hydra overrides: ``physics=NAME`` (also ``newton_mujoco``, see :mod:`ledger_lab.mujoco_cpu`),
            ``presets=NAME``, ``env.PATH=VALUE``, ``agent.PATH=VALUE``.
        agent: Key of the agent's configuration in the registration; ``None`` for the library's usual configuration.
        play_mode: Whether to apply the task's ``play_mode``. Overrides have priority.

    Raises:
        UserError: If an override matches nothing or has the wrong type, or the code of a configuration fails.
    """
    agent_key = agent or f"{library}_cfg_entry_point"
    native_physics = wing_part("native physics") if NATIVE_CHOICE in overrides else None
    if native_physics is not None:
        required_part("native overrides")(task, overrides)
        overrides = [WARP_CHOICE if override == NATIVE_CHOICE else override for override in overrides]
    plain = {"env": _load(task, "env_cfg_entry_point"), "agent": _load(task, agent_key)}
    choices = [override for override in overrides if _is_choice(override, task, plain)]
    env_cfg, agent_cfg = _resolve(task, agent_key, choices)
    adapter = load_adapter(library, agent)
    optional = {**adapter.dialect.optional, **adapter.optional}
    missing = {path: value for path, value in optional.items() if follow(agent_cfg, path.split(".")) is ABSENT}
    complete(agent_cfg, missing)
    for override in overrides:
        if override not in choices:
            _check_value(override, {"env": env_cfg, "agent": agent_cfg}, adapter.dialect.rules)
    env_cfg, agent_cfg = _resolve(task, agent_key, list(overrides), play_mode)
    leave_out(agent_cfg, missing)
    if not isinstance(env_cfg, ManagerBasedRLEnvCfg | DirectRLEnvCfg):
        raise UserError(
            f"task {task} has several agents: choose a task with one agent, because the libraries here train one policy"
        )
    if native_physics is not None:
        env_cfg.sim.physics = native_physics(env_cfg.sim.physics)
    use_local_ground(env_cfg)
    return env_cfg, agent_cfg


def _load(task: str, key: str) -> Any:
    """Create a configuration of a task. An error in the task's code becomes an error of one line.

    Args:
        task: Gymnasium id.
        key: Key of the configuration in the registration.
    """
    entry = gym.spec(task).kwargs[key]
    try:
        return load_cfg_from_registry(task, key)
    except Exception as error:
        spec = importlib.util.find_spec(task_package(task))
        folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
        named = f", {entry}," if isinstance(entry, str) else ""
        raise UserError(f"task {task}: its {key}{named} fails: {place_of(error, folder)}") from error


def _resolve(
    task: str, agent_key: str, overrides: list[str], play_mode: bool = False
) -> tuple[ManagerBasedRLEnvCfg, Any]:
    """Let Isaac Lab resolve the configurations; a refusal becomes an error of one line."""
    try:
        env_cfg, agent_cfg = resolve_task_config(task, agent_key, play_mode=play_mode, overrides=overrides)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        refused = f"task {task} cannot be configured with {' '.join(overrides)}"
        raise UserError(f"{refused}: {first_line(error)}") from error
    return env_cfg, _with_numbers(agent_cfg) if isinstance(agent_cfg, Mapping) else agent_cfg


def _with_numbers(node: Any) -> Any:
    """Convert texts like ``3e-4`` of a configuration to numbers, which YAML 1.1 reads as texts."""
    if isinstance(node, Mapping):
        return {key: _with_numbers(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_with_numbers(value) for value in node]
    return float(node) if isinstance(node, str) and _NUMBER.fullmatch(node) else node


def complete(agent_cfg: Any, optional: Mapping[str, Any]) -> None:
    """Add missing settings to a configuration of nested dictionaries.

    Args:
        agent_cfg: The configuration.
        optional: Default values by dotted path.

    Raises:
        UserError: If a group of settings is something else.
    """
    for path, value in optional.items():
        *groups, name = path.split(".")
        node = agent_cfg
        for group in groups:
            node = node.setdefault(group, {}) if isinstance(node, dict) else None
        if not isinstance(node, dict):
            raise UserError(f"the agent's configuration has no group {'.'.join(groups)}")
        node.setdefault(name, value)


def leave_out(agent_cfg: Any, optional: Mapping[str, Any]) -> None:
    """Remove settings that have their defaults from a configuration of nested dictionaries.

    So a default that is written on the command line or in a recipe file gives the same agent, with the same hash, as a
    default that is left out.

    Args:
        agent_cfg: The configuration.
        optional: Default values by dotted path.
    """
    for path, default in optional.items():
        *groups, name = path.split(".")
        node = follow(agent_cfg, groups)
        if isinstance(node, dict) and name in node and _is_same(node[name], default):
            del node[name]


def _is_same(value: Any, default: Any) -> bool:
    """Tell whether a setting has its default; 1 may stand for 1.0, but not for ``True``."""
    return bool(value == default) and isinstance(value, bool) == isinstance(default, bool)


def _is_choice(override: str, task: str, plain: Mapping[str, Any]) -> bool:
    """Tell whether an override selects a preset; refuse an argument that is no override.

    Args:
        override: The override.
        task: Gymnasium id.
        plain: Configurations with their presets unresolved.
    """
    key, equals, value = override.partition("=")
    if not equals:
        raise UserError(f"unknown argument {override!r}: see --help; overrides read env.PATH=VALUE or agent.PATH=VALUE")
    if key not in _SELECTORS:
        root, *path = key.split(".")
        if root not in plain or not path:
            raise UserError(f"override {override!r} matches nothing: {nearest(root, [*plain, *_SELECTORS])}")
        return isinstance(follow(plain[root], path), PresetCfg)
    presets = enumerate_task_presets(task) or {}
    if key == "presets":
        known = sorted({name for names in presets.values() for name in names})
    else:
        target = PresetTarget[key.upper()]
        known = presets.get(target, [])
    for name in value.split(","):
        if name not in known and name not in PresetTarget.all_legacy_aliases():
            what = "preset" if key == "presets" else key
            offered = physics_choices(task) if key == "physics" else known
            raise UserError(f"{override}: task {task} has no {what} {name!r}: {nearest(name, offered)}")
    return True


def _check_value(override: str, resolved: Mapping[str, Any], ruled: Container[str]) -> None:
    """Refuse an override whose path does not exist, or whose value has the wrong type.

    Args:
        override: The override.
        resolved: The configurations without it.
        ruled: Names of overrides that :func:`require_values` checks, including whether they may be ``None``.
    """
    key, _, value = override.partition("=")
    root, *path = key.split(".")
    for depth, name in enumerate(path):
        parent = follow(resolved[root], path[:depth])
        if name not in children(parent):
            where = ".".join([root, *path[:depth]])
            known = nearest(name, children(parent))
            raise UserError(f"override {override!r} matches nothing: {where} has no {name!r}: {known}")
    node = follow(resolved[root], path)
    if type(node) is int and (isinstance(parent, Mapping) or "float" in _declared_type(parent, path[-1])):
        node = float(node)  # 4 may stand for 4.0, in a YAML file always
    parsed = _parse(value)
    needed = root == "agent" and bool(children(node))  # a library fails without a group of its settings
    if node is None or (parsed is None and (key in ruled or _may_be_none(parent, path[-1], node, needed=needed))):
        return
    if isinstance(node, tuple) and "..." in _declared_type(parent, path[-1]):
        node = list(node)  # of any length
        parsed = list(parsed) if isinstance(parsed, tuple) else parsed
    if children(node) and not isinstance(node, list) and not isinstance(parsed, Mapping):
        raise UserError(
            f"override {override!r}: {key} is a group: name one of its settings {', '.join(children(node))}"
        )
    if not _is_like(parsed, node):
        kind = f"of type {type(node).__name__} ({node!r})"
        if isinstance(node, slice):
            kind = "a list of indices like [0, 1]"
        elif isinstance(node, list | tuple):
            kind = f"a list {f'of {len(node)} values ' if isinstance(node, tuple) else ''}like {[*node]}"
        raise UserError(f"override {override!r}: {key} is {kind}, and {value!r} is not")


def _is_like(value: Any, former: Any) -> bool:
    """Tell whether the type and the shape of a value fit the former value."""
    if isinstance(former, tuple):
        numbers = [float(each) if type(each) is int else each for each in former]
        return isinstance(value, list | tuple) and len(value) == len(former) and all(map(_is_like, value, numbers))
    if isinstance(former, list) and former:
        return isinstance(value, list) and bool(value) and all(_is_like(each, former[0]) for each in value)
    if isinstance(former, slice):
        return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)
    if isinstance(former, Mapping):
        shared = former.keys() & value.keys() if isinstance(value, Mapping) else ()
        return isinstance(value, Mapping) and all(_is_like(value[name], former[name]) for name in shared)
    if callable(former):
        return isinstance(value, str)
    kinds: dict[type, type | tuple[type, ...]] = {bool: bool, int: int, float: (int, float), str: str}
    allowed = kinds.get(type(former))
    if allowed is None:
        return True
    return isinstance(value, allowed) and (allowed is bool or not isinstance(value, bool))


def _may_be_none(parent: Any, name: str, value: Any, *, needed: bool) -> bool:
    """Tell whether a setting may be ``None``: numbers, switches and what is needed only if a declaration says so."""
    declared_so = any(word in _declared_type(parent, name) for word in ("None", "Optional", "Any"))
    return declared_so or not (needed or isinstance(value, int | float))


def _declared_type(parent: Any, name: str) -> str:
    """Return the type that the class of a group declares for a setting; empty if it declares none."""
    field = getattr(parent, "__dataclass_fields__", {}).get(name)
    return "" if field is None else str(field.type)


def require_values(agent_cfg: Any, adapter: Adapter) -> None:
    """Check the settings that the fields of a recipe are translated to, in any configuration of the library.

    Args:
        agent_cfg: The library's configuration.
        adapter: The library.

    Raises:
        UserError: If the library can't train with a value, or would misread it.
    """
    for override, (field, rule) in adapter.dialect.rules.items():
        value = follow(agent_cfg, override.split(".")[1:])
        if value is ABSENT:
            continue
        if wrong := adapter.refuse_activation(value) if field == "activation" else rule(value):
            raise UserError(f"{override} {value!r}: {wrong}")


def _parse(value: str) -> Any:
    """Return an override's value as Isaac Lab reads it."""
    literals = {"true": True, "false": False, "none": None, "null": None}
    if value.lower() in literals:
        return literals[value.lower()]
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def _describe_callable(value: Any) -> Any:
    """Return how a configuration names something that can be called: by its parts, if it has no name of its own."""
    return callable_to_string(value) if hasattr(value, "__name__") else plain_config(value)


isaaclab.utils.dict.callable_to_string = _describe_callable  # to_dict, which writes env.yaml, would fail
