"""One process's simulation: resolving what the user asked for, building the environment, describing it."""

from __future__ import annotations

import ast
import copy
import hashlib
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
import torch
import warp
from isaaclab.app import launch_simulation, validate_launch
from isaaclab.cli import load_external_tasks
from isaaclab.utils import to_dict
from isaaclab_rl.entrypoints.common import scoped_torch_backend_flags
from isaaclab_tasks.utils import resolve_task_config
from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry
from isaaclab_tasks.utils.preset_cli import enumerate_task_presets
from isaaclab_tasks.utils.preset_target import PresetTarget

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.meters import package_versions
from ledger_lab.panels.panel import Panel

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg

_NEWTON_PACKAGES = ("newton", "warp-lang", "mujoco", "mujoco-warp")
_PHYSICS_NEUTRAL = frozenset({"class_type", "launcher_type", "use_cuda_graph", "debug_mode"})
"""Fields of a physics configuration that change its speed or its output, but no trajectory."""


def registered_tasks() -> list[str]:
    """Return the Gymnasium ids of every task that is registered with Isaac Lab, ours and others'."""
    load_external_tasks()
    import isaaclab_tasks  # noqa: F401 - registers the stock tasks

    import ledger_lab.tasks  # noqa: F401 - and ours, where the package is on the path but not installed

    return sorted(name for name, spec in gym.registry.items() if "env_cfg_entry_point" in spec.kwargs)


def require_task(task: str, library: str) -> dict[str, Any]:
    """Return what a task is registered with.

    Args:
        task: Gymnasium id.
        library: Library that it is to be trained with.

    Raises:
        UserError: If the task is unknown, or has no configuration for the library.
    """
    known = registered_tasks()
    if task not in known:
        raise UserError(f"unknown task {task!r}: {nearest(task, known)} (scripts/list_envs.py lists them)")
    kwargs: dict[str, Any] = gym.spec(task).kwargs
    if f"{library}_cfg_entry_point" not in kwargs:
        raise UserError(f"task {task} has no configuration for {library}: it registers no {library}_cfg_entry_point")
    return kwargs


def resolve_device(device: str | None) -> str:
    """Return the device to use: the one asked for, else CUDA where there is one, else the CPU.

    Args:
        device: ``cpu``, ``cuda``, ``cuda:N`` or ``None``.

    Raises:
        UserError: If there is no such device here.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    known = ["cpu", *(f"cuda:{index}" for index in range(gpus))]
    name = known[min(gpus, 1)] if device is None else "cuda:0" if device == "cuda" else device
    if name not in known:
        raise UserError(f"no device {device!r} on this machine: --device can be {' or '.join(known)}")
    return name


def resolve_configs(task: str, library: str, overrides: Sequence[str]) -> tuple[ManagerBasedRLEnvCfg, Any]:
    """Resolve the configurations of a task and of a library's agent, with presets and overrides applied.

    Args:
        task: Gymnasium id of a registered task.
        library: The library.
        overrides: Hydra overrides: ``physics=NAME``, ``presets=NAME``, ``env.PATH=VALUE``, ``agent.PATH=VALUE``.

    Raises:
        UserError: If an override matches nothing, or has the wrong type.
    """
    agent_key = f"{library}_cfg_entry_point"
    _check_overrides(task, agent_key, overrides)
    try:
        env_cfg, agent_cfg = resolve_task_config(task, agent_key, overrides=list(overrides))
    except ValueError as error:
        raise UserError(f"{' '.join(overrides)}: {str(error).strip().splitlines()[0]}") from error
    return env_cfg, agent_cfg


def _check_overrides(task: str, agent_key: str, overrides: Sequence[str]) -> None:
    """Refuse overrides that Isaac Lab would set without a look, or fail on deep inside."""
    roots = {
        "env": load_cfg_from_registry(task, "env_cfg_entry_point"),
        "agent": load_cfg_from_registry(task, agent_key),
    }
    presets = enumerate_task_presets(task) or {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise UserError(
                f"unknown argument {override!r}: see --help; overrides read env.PATH=VALUE or agent.PATH=VALUE"
            )
        if key in ("physics", "renderer"):
            known = presets.get(PresetTarget[key.upper()], [])
            if value not in known:
                raise UserError(f"{override}: task {task} has no such {key}: {nearest(value, known)}")
        elif key != "presets":
            _check_path(override, key, value, roots)


def _check_path(override: str, key: str, value: str, roots: Mapping[str, Any]) -> None:
    """Follow a dotted path through a configuration; refuse it where it leaves the tree or changes a type."""
    root, *path = key.split(".")
    if root not in roots or not path:
        raise UserError(f"override {override!r} matches nothing: {nearest(root, [*roots, 'physics', 'presets'])}")
    node = roots[root]
    for depth, name in enumerate(path):
        children = dict(node) if isinstance(node, Mapping) else vars(node) if hasattr(node, "__dict__") else {}
        if name not in children:
            parent = ".".join([root, *path[:depth]])
            raise UserError(
                f"override {override!r} matches nothing: {parent} has no {name!r}: {nearest(name, children)}"
            )
        node = children[name]
    if not isinstance(node, bool | int | float):
        return
    try:
        parsed = ast.literal_eval({"true": "True", "false": "False"}.get(value.lower(), value))
    except (ValueError, SyntaxError):
        parsed = value
    fits = isinstance(parsed, bool) if isinstance(node, bool) else isinstance(parsed, int | float)
    if not fits or (isinstance(parsed, bool) and not isinstance(node, bool)):
        raise UserError(f"override {override!r}: {key} is a {type(node).__name__} ({node!r}), {value!r} is none")


def require_runtime(env_cfg: ManagerBasedRLEnvCfg, launcher_args: dict[str, Any]) -> None:
    """Refuse physics, renderers and viewers that this environment can't start.

    Args:
        env_cfg: Resolved configuration; automatic choices in it are settled.
        launcher_args: Isaac Lab's launcher flags.

    Raises:
        UserError: If they contradict each other, or need Isaac Sim where it isn't installed.
    """
    try:
        _, kit_sources = validate_launch(env_cfg, launcher_args)
    except ValueError as error:
        raise UserError(str(error).strip().splitlines()[0]) from error
    if kit_sources and importlib.util.find_spec("isaacsim") is None:
        raise UserError(f"{kit_sources[0]} needs Isaac Sim, which is not installed here: choose physics=newton_mjwarp")


def held_out_config(env_cfg: ManagerBasedRLEnvCfg, panel: Panel, slots: int) -> ManagerBasedRLEnvCfg:
    """Return the configuration of a simulation that only scores policies.

    Args:
        env_cfg: Configuration that the policies were trained in.
        panel: The panel.
        slots: Episodes that run at once.
    """
    cfg = copy.deepcopy(env_cfg)  # Isaac Lab's own copy() runs __post_init__ again, which would undo the presets
    cfg.scene.num_envs = slots
    cfg.episode_length_s = panel.episode_length_s
    if is_newton(cfg):
        cfg.scene.env_spacing = 0.0  # every world is its own: at the origin, all slots round alike
    for group in vars(cfg.observations).values():
        if hasattr(group, "enable_corruption"):
            group.enable_corruption = False
    return cfg


def is_newton(env_cfg: ManagerBasedRLEnvCfg) -> bool:
    """Tell whether the physics engine is Newton, which keeps every environment in a world of its own."""
    return type(env_cfg.sim.physics).__name__ == "NewtonCfg"


def exactness(env_cfg: ManagerBasedRLEnvCfg) -> Literal["bitwise", "statistical"]:
    """Tell how well a score repeats: ``bitwise`` where tests prove it, else ``statistical``."""
    return "bitwise" if is_newton(env_cfg) and env_cfg.sim.device == "cpu" else "statistical"


def physics_name(env_cfg: ManagerBasedRLEnvCfg) -> str:
    """Return the physics engine and its solver in a few words, like ``newton/mjwarp``."""
    physics = env_cfg.sim.physics
    engine = type(physics).__name__.removesuffix("Cfg").lower()
    solver = getattr(physics, "solver_cfg", None)
    return engine if solver is None else f"{engine}/{type(solver).__name__.removesuffix('SolverCfg').lower()}"


def describe_simulation(env_cfg: ManagerBasedRLEnvCfg) -> dict[str, Any]:
    """Return everything about a simulation that can change the outcome of an episode.

    Args:
        env_cfg: The resolved configuration.

    Returns:
        Plain JSON values for the identity of a panel. Asset files appear by the hash of their content.
    """
    scene = {key: value for key, value in _plain(env_cfg.scene).items() if key not in ("num_envs", "env_spacing")}
    parts = {
        name: _plain(getattr(env_cfg, name))
        for name in ("actions", "observations", "events", "terminations", "commands")
        if getattr(env_cfg, name, None) is not None
    }
    packages = ("isaaclab", *(_NEWTON_PACKAGES if is_newton(env_cfg) else ("ovphysx",)))
    return {
        "physics": {
            "engine": physics_name(env_cfg),
            "settings": {k: v for k, v in _plain(env_cfg.sim.physics).items() if k not in _PHYSICS_NEUTRAL},
            "gravity": list(env_cfg.sim.gravity),
        },
        "time_step": {"physics_s": env_cfg.sim.dt, "decimation": env_cfg.decimation},
        "environment_sha256": hashlib.sha256(canonical_json({"scene": scene, **parts})).hexdigest(),
        "packages": {name: version for name, version in package_versions(packages).items() if name != "python"},
    }


def _plain(value: Any) -> Any:  # noqa: ANN401 - any part of a configuration
    """Return a part of a configuration as JSON values that are the same on every machine."""
    if hasattr(value, "__dataclass_fields__"):
        value = to_dict(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if key not in ("debug_vis", "enable_corruption")}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str) and os.path.isfile(value):
        return f"sha256:{hashlib.sha256(Path(value).read_bytes()).hexdigest()}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def config_sha256(cfg: Any) -> str:  # noqa: ANN401 - an environment's or any library's configuration
    """Return the hash of a resolved configuration."""
    return hashlib.sha256(canonical_json(_plain(cfg))).hexdigest()


@contextmanager
def simulation_app(env_cfg: ManagerBasedRLEnvCfg, launcher_args: dict[str, Any]) -> Iterator[None]:
    """Start the runtime that the physics engine needs, for the life of the process.

    Args:
        env_cfg: Resolved configuration of the environment.
        launcher_args: Isaac Lab's launcher flags.
    """
    if env_cfg.sim.device == "cpu" and not torch.cuda.is_available():
        # OvPhysX asks for pinned host memory, which Warp can't give without CUDA.
        host = warp.get_device("cpu")
        host.pinned_allocator = host.default_allocator
    flags = {"cuda_matmul_allow_tf32": True, "cudnn_allow_tf32": True}
    with (
        scoped_torch_backend_flags(**flags, cudnn_deterministic=False, cudnn_benchmark=True),
        launch_simulation(env_cfg, launcher_args),
    ):
        yield


@contextmanager
def environment(task: str, env_cfg: ManagerBasedRLEnvCfg) -> Iterator[ManagerBasedRLEnv]:
    """Create an environment, and close it in the end. A process can have one at a time.

    Args:
        task: Gymnasium id.
        env_cfg: Resolved configuration.
    """
    env = gym.make(task, cfg=env_cfg)
    try:
        yield env
    finally:
        env.close()


def peak_gpu_memory_bytes(device: str) -> int | None:
    """Return the most device memory that torch and Warp held in this process; ``None`` on a CPU."""
    if device == "cpu":
        return None
    return torch.cuda.max_memory_reserved(device) + warp.get_mempool_used_mem_high(device)
