"""What a simulation, an agent and a score depend on: configurations as plain values, hashes of them and of code.

Configurations become JSON values that are equal exactly if the configurations do the same.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import math
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.ledger.meters.host import package_sha256, package_versions
from ledger_lab.ledger.source import modules_sha256, source_sha256
from ledger_lab.panels import Panel
from ledger_lab.panels.direct import managed, own_settings
from ledger_lab.panels.ground import has_held_out_ground
from ledger_lab.panels.physics import physics_name
from ledger_lab.panels.predicate import resolve_success

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

    from ledger_lab.training.runners.adapter import Adapter

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
_NAMED = re.compile(r'"([A-Za-z_]\w*(?:\.\w+)*):[A-Za-z_<]')
"""Matches the beginning of the name of a function or class in a configuration; captures its module."""
_DOTTED = re.compile(r'"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)"')
"""Matches a name with dots only, as an agent's configuration may name a class."""
_VERSIONED = re.compile(
    r"isaaclab(_(assets|contrib|experimental|mimic|newton|ov|ovphysx|physx|ppisp|rl|tasks|tasks_experimental|teleop"
    r"|visualizers))?|builtins|gymnasium|newton|numpy|rl_games|rsl_rl|skrl|torch|warp"
)
"""Packages whose code has a version in the ledger."""

_POLICY_PARTS = ("observations", "actions", "commands")
"""Parts of an environment that determine what a policy sees and does."""
_SCORED_PARTS = (*_POLICY_PARTS, "scene", "sim", "events", "terminations")
"""Parts of an environment that can change a held-out episode. Rewards and curricula only change a training."""
_MODULE = re.compile(rb'"ledger_lab\.[\w.]+:')
"""Matches the beginning of the name of a function or class of LedgerLab."""


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
    parts = {name: _without_slots(plain_config(part)) for name, part in managed(env_cfg, _ENVIRONMENT_PARTS).items()}
    if own := own_settings(env_cfg):
        parts["task"] = _without_slots(plain_config(own))
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


def code_sha256(task: str, env_cfg: ManagerBasedRLEnvCfg, agent_cfg: Any) -> dict[str, str]:  # noqa: ANN401
    """Return the hashes of the code that a task runs, by top-level package or module.

    These are LedgerLab, the package that registers the task, and every package from which a configuration takes a
    function or a class. Their imports from other packages are not followed. Isaac Lab and the libraries are left out:
    the ledger holds their versions. Comments, docstrings and layout do not count, except those of LedgerLab: it has too
    many files to parse at the start of each training.

    Args:
        task: Gymnasium id of a registered task.
        env_cfg: Resolved configuration of its environment.
        agent_cfg: Resolved configuration of its agent.
    """
    spec = gym.spec(task)
    named = [*_named([spec.entry_point, *spec.kwargs.values(), env_cfg]), *_named([agent_cfg], dotted=True)]
    packages = ["ledger_lab", *sorted({name.partition(".")[0] for name in named} - {"ledger_lab"})]
    return {
        package: package_sha256(package, _bytes_sha256 if package == "ledger_lab" else source_sha256)
        for package in packages
        if importlib.util.find_spec(package) is not None
    }


def scoring_code(panel: Panel, env_cfg: ManagerBasedRLEnvCfg) -> dict[str, str]:
    """Return the hashes of the code that a score depends on, apart from packages whose versions the ledger holds.

    These are the modules of the success function, of the environment's class, and of every function and class that the
    configuration names for a held-out episode, with the modules that they import from their own packages; see
    :func:`~ledger_lab.ledger.source.modules_sha256`. Of LedgerLab, only the tasks are included. They are in the
    identity of the panel.

    Args:
        panel: The panel.
        env_cfg: Resolved configuration of the environment.

    Returns:
        Hashes by module. Comments, docstrings and layout do not count. A success function that can't be imported has
        none.
    """
    with suppress(UserError):
        resolve_success(panel)  # a module beside the panel file can be found from now on
    return _modules(panel.task, env_cfg, _SCORED_PARTS, _named([panel.success_function]))


def policy_code(task: str, env_cfg: ManagerBasedRLEnvCfg, agent_cfg: Any) -> dict[str, str]:  # noqa: ANN401
    """Return the hashes of the code that determines what a policy sees and does, and how it decides.

    Args:
        task: Gymnasium id of a registered task.
        env_cfg: Resolved configuration of its environment.
        agent_cfg: Resolved configuration of its agent, which may name classes of the user.

    Returns:
        Hashes by module, as in :func:`scoring_code`.
    """
    return _modules(task, env_cfg, _POLICY_PARTS, _named([agent_cfg], dotted=True))


def _modules(task: str, env_cfg: ManagerBasedRLEnvCfg, parts: Sequence[str], others: list[str]) -> dict[str, str]:
    """Return the hashes of the modules that parts of an environment name, of its own class, and of other modules."""
    settings = [*managed(env_cfg, parts).values(), own_settings(env_cfg)]
    named = [*_named([gym.spec(task).entry_point, *settings]), *others]
    return modules_sha256(
        name for name in named if name.partition(".")[0] != "ledger_lab" or name.startswith("ledger_lab.tasks.")
    )


def changed_code(now: dict[str, str], declared: dict[str, str] | None) -> dict[str, str]:
    """Return the code that has changed since a run was declared.

    Args:
        now: Present hashes of the code, or of a part of it.
        declared: Hashes when the run was declared; ``None`` if the run did not record them.

    Returns:
        Hashes of what was added or changed, by name. What has only moved is left out, and so is what is not used any
        more: what used it has changed.
    """
    return {} if declared is None else {name: found for name, found in now.items() if found not in declared.values()}


def _named(settings: list[Any], *, dotted: bool = False) -> list[str]:
    """Return the modules of the functions and classes that settings name, without those of versioned packages.

    Args:
        settings: Parts of a configuration.
        dotted: Whether names with dots only count, too.
    """
    text = canonical_json(plain_config(settings)).decode()
    found = _NAMED.findall(text)
    for name in _DOTTED.findall(text) if dotted else ():
        package = name.partition(".")[0]
        if not _VERSIONED.fullmatch(package) and importlib.util.find_spec(package) is not None:
            found.append(name.rpartition(".")[0])
    return sorted({name for name in found if not _VERSIONED.fullmatch(name.partition(".")[0])})


def plain_config(value: Any) -> Any:  # noqa: ANN401 - any configuration, any JSON value
    """Return a part of a configuration as JSON values that are the same on every machine and in every process.

    A function or a class becomes ``module:name``. If that does not tell all that it does, as with lambdas, closures and
    partial functions, its compiled code and the values that it holds follow. Arrays and files become the hashes of
    their content. Sets are sorted.

    Args:
        value: A configuration, or a part of one.
    """
    return _plain(value, ())


def config_sha256(cfg: Any, without: Sequence[str]) -> str:  # noqa: ANN401
    """Return the hash of a resolved configuration.

    Args:
        cfg: An environment's or an agent's configuration.
        without: Dotted paths of settings to leave out; they need not exist.
    """
    content = plain_config(cfg)
    for path in without:
        *groups, name = path.split(".")
        node = content
        for group in groups:
            node = node.get(group, {})
        node.pop(name, None)
    return plain_sha256(content)


def plain_sha256(content: Any) -> str:  # noqa: ANN401 - any result of plain_config
    """Return the hash of a part of a plain configuration.

    Functions and classes of LedgerLab count by name, and not by module: moving one changes no hash.

    Args:
        content: A result of :func:`plain_config`, or a part of it.
    """
    return _bytes_sha256(_MODULE.sub(b'"ledger_lab:', canonical_json(content)))


def _plain(value: Any, within: tuple[int, ...]) -> Any:  # noqa: ANN401
    """Return a value as JSON values.

    Args:
        value: The value.
        within: Ids of the objects that hold it, because a function may hold itself.
    """
    if id(value) in within:
        return "itself"

    def plain(inner: Any) -> Any:  # noqa: ANN401
        return _plain(inner, (*within, id(value)))

    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON has no infinity
    if isinstance(value, str | Path):
        value = str(value)
        is_file = value.startswith("/") and Path(value).is_file()
        return f"sha256:{_bytes_sha256(Path(value).read_bytes())}" if is_file else value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value), key=canonical_json)
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type) or callable(value):
        return _plain_callable(value, plain)
    if (array := _array(value)) is not None:
        return array
    if isinstance(value, type(MISSING)):
        return {}
    state = _state(value)
    if hasattr(value, "__dataclass_fields__"):
        return plain(state)
    return plain({"class": type(value), **state}) if state or hasattr(value, "__dict__") else _text(value)


def _plain_callable(value: Any, plain: Any) -> Any:  # noqa: ANN401
    """Return a function, a class or an object that can be called as JSON values. Local classes are told by their names.

    Args:
        value: The function, class or object.
        plain: Returns what it holds as JSON values.
    """
    if isinstance(value, functools.partial):
        return {"partial": plain(value.func), "args": plain(value.args), "keywords": plain(value.keywords)}
    if isinstance(value, MethodType):
        return {"method": _name(value), "of": plain(value.__self__)}
    if not hasattr(value, "__qualname__"):
        return {"class": plain(type(value)), **plain(_state(value))}
    if _is_found_by_name(value) or not isinstance(value, FunctionType):
        return _name(value)
    held = [plain(cell.cell_contents) for cell in value.__closure__ or ()]
    defaults = plain([value.__defaults__, value.__kwdefaults__])
    return {"function": _name(value), "code": _code(value.__code__), "holds": held, "defaults": defaults}


def _name(value: Any) -> str:  # noqa: ANN401
    """Return the name of a function or class."""
    return f"{value.__module__}:{value.__qualname__}"


def _is_found_by_name(value: Any) -> bool:  # noqa: ANN401
    """Tell whether a name in a module leads to a function or class, so that the source of the module determines it."""
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _code(code: CodeType) -> list[Any]:
    """Return the compiled code of a function, without its place in a file."""
    constants = [_code(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return [code.co_code.hex(), constants, *map(list, (code.co_names, code.co_varnames, code.co_freevars))]


def _constant(value: Any) -> str:  # noqa: ANN401
    """Return a constant of compiled code; that of a set does not depend on the order of its values."""
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


def _array(value: Any) -> dict[str, Any] | None:  # noqa: ANN401
    """Return type, shape and hash of an array of torch, NumPy or Warp; ``None`` if a value is none."""
    if isinstance(value, torch.Tensor):
        kind, content = value.dtype, value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy()
    elif isinstance(value, np.ndarray) and value.dtype != object:
        kind, content = value.dtype, value
    elif callable(getattr(value, "numpy", None)):
        kind, content = value.dtype, value.numpy()
    else:
        return None
    return {"dtype": str(kind), "shape": list(value.shape), "sha256": _bytes_sha256(content.tobytes())}


def _state(value: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the attributes of an object."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    attributes = getattr(value, "__dict__", None) or {name: getattr(value, name, None) for name in slots}
    return {name: held for name, held in attributes.items() if not name.startswith("__")}


def _text(value: Any) -> str:  # noqa: ANN401
    """Return a value as a text, without its address in memory."""
    text = str(value)
    return _name(type(value)) if " at 0x" in text else text


def _bytes_sha256(content: bytes) -> str:
    """Return the hash of bytes."""
    return hashlib.sha256(content).hexdigest()


def hash_configs(env_cfg: ManagerBasedRLEnvCfg, agent_cfg: Any, adapter: Adapter) -> dict[str, str]:
    """Return the hashes of both configurations without settings of device, length, seed and names."""
    return {
        "env": config_sha256(env_cfg, without=("sim", "seed", "log_dir", "viewer", "video_recorders")),
        "agent": config_sha256(agent_cfg, without=adapter.circumstances),
    }
