"""The simulation of one process: device, checks, runtime and environment."""

from __future__ import annotations

import copy
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch
import warp
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from isaaclab.app import launch_simulation, validate_launch
from isaaclab.sensors import RayCasterCfg
from isaaclab.utils import validate
from isaaclab.utils.string import ResolvableString, string_to_callable
from isaaclab_rl.entrypoints.common import scoped_torch_backend_flags

from ledger_lab.errors import FirstErrorStack, UserError, first_line
from ledger_lab.ledger import Status
from ledger_lab.ledger.endings import is_device_fault, status_of
from ledger_lab.panels.direct import give_managers, is_direct
from ledger_lab.panels.ground import HELD_OUT_GENERATOR, Ground, generated_terrain
from ledger_lab.panels.panel import slots_in_all
from ledger_lab.panels.parameter_rows import remembered_parameters
from ledger_lab.panels.physics import NATIVE, is_mujoco, is_newton, physics_name
from ledger_lab.panels.replays import least_replays
from ledger_lab.tasks.assets.local import require_files
from ledger_lab.training.launch import World
from ledger_lab.training.runners.lean_imports import import_environment
from ledger_lab.training.runners.physics_engine import NATIVE_CHOICE
from ledger_lab.training.runners.recorded_calls import replaced
from ledger_lab.training.runners.threads import torch_threads
from ledger_lab.wings import required_part

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg


_STEPS = ("_simulate_full", "_simulate_physics_only")
"""Isaac Lab's two step functions: with and without motors that Newton computes. A simulation uses one of them."""


def resolve_device(device: str | None, world: World | None = None) -> str:
    """Return the device to use: the requested device, else CUDA if there is a GPU, else the CPU.

    Args:
        device: ``cpu``, ``cuda``, ``cuda:N`` or ``None``.
        world: The processes of the training; if there are several, each uses the GPU with its own number. A process
            that sees exactly one GPU uses this GPU, because a launcher such as Slurm may give each process its own.

    Raises:
        UserError: If this machine has no such device.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if world is not None and world.size > 1 and device != "cpu" and (gpus or device is not None):
        if device not in (None, "cuda"):
            raise UserError(
                f"--device {device}: each process uses the GPU of its own number: use --device cuda, and choose GPUs "
                "with CUDA_VISIBLE_DEVICES"
            )
        if gpus == 1:
            return "cuda:0"
        if world.local_size > gpus:
            raise UserError(
                f"{world.local_size} processes on a machine with {gpus} GPU{'' if gpus == 1 else 's'}: start one "
                "process per GPU, or use --device cpu"
            )
        return f"cuda:{world.local_rank}"
    known = ["cpu", *(f"cuda:{index}" for index in range(gpus))]
    name = known[min(gpus, 1)] if device is None else "cuda:0" if device == "cuda" else device
    if name not in known:
        raise UserError(f"no device {device!r} on this machine: --device can be {' or '.join(known)}")
    return name


def require_runtime(
    env_cfg: ManagerBasedRLEnvCfg, launcher_args: dict[str, Any], cpu_threads: int | None = None
) -> None:
    """Refuse physics, renderers, viewers and assets that can't be used here, and invalid configurations.

    Args:
        env_cfg: Resolved configuration; its automatic choices are replaced by actual ones.
        launcher_args: Isaac Lab's launcher flags.
        cpu_threads: Threads that step the environments, with MuJoCo's C code; ``None`` for all usable cores.

    Raises:
        UserError: If they contradict each other, need Isaac Sim where it isn't installed, or can't be loaded.
    """
    try:
        _, kit_sources = validate_launch(env_cfg, launcher_args)
        validate(env_cfg)
    except ValueError as error:
        raise UserError(str(error).strip().splitlines()[0]) from error
    if kit_sources and importlib.util.find_spec("isaacsim") is None:
        raise UserError(
            f"{kit_sources[0]} needs Isaac Sim, which is not installed here: choose physics=newton_mjwarp or --viz "
            "newton_gl. If the task has no such preset, configure Newton: from isaaclab_newton.physics import "
            "MJWarpSolverCfg, NewtonCfg; self.sim.physics = NewtonCfg(solver_cfg=MJWarpSolverCfg()). Or OvPhysX: from "
            "isaaclab_ov.physics import OvPhysxCfg; self.sim.physics = OvPhysxCfg()"
        )
    if physics_name(env_cfg) == NATIVE:
        required_part("native fit")(env_cfg, cpu_threads)
    elif cpu_threads is not None:
        raise UserError(f"--cpu_threads belongs to {NATIVE_CHOICE}, and the physics is {physics_name(env_cfg)}")
    require_files(env_cfg)


def held_out_config(
    env_cfg: ManagerBasedRLEnvCfg, held_out: int, training: int = 0, ground: Ground = "held_out"
) -> ManagerBasedRLEnvCfg:
    """Return the configuration of a simulation with held-out slots.

    Slots are added until their number is a multiple of :data:`ledger_lab.panels.panel.SLOTS_MULTIPLE`.

    Args:
        env_cfg: Configuration of the training.
        held_out: Slots for the episodes of panels. Slots that replay episodes are added.
        training: Training slots.
        ground: Ground of the held-out slots, if the terrain is generated.
    """
    cfg = unscored_config(env_cfg, ground)
    cfg.scene.num_envs = slots_in_all(training, held_out + least_replays(env_cfg))
    return cfg


def unscored_config(env_cfg: ManagerBasedRLEnvCfg, ground: Ground = "trained") -> ManagerBasedRLEnvCfg:
    """Return the configuration of a training without held-out slots, on the ground that a scored training has.

    Args:
        env_cfg: Configuration of the training.
        ground: Ground of the simulation, if the terrain is generated.
    """
    cfg = copy.deepcopy(env_cfg)  # Isaac Lab's own copy() runs __post_init__ again, which would undo the presets
    if (terrain := generated_terrain(cfg)) is not None:
        _seed_terrain(terrain, ground)
    return cfg


def _seed_terrain(terrain: Any, ground: Ground) -> None:  # noqa: ANN401 - a terrain importer's configuration
    """Generate a terrain from its own seed, and add held-out ground if it is asked for."""
    generator = terrain.terrain_generator
    if generator.seed is None:
        generator.seed = 0  # Isaac Lab would generate the ground from the training's seed
    stock = generator.class_type.__name__ == "TerrainGenerator"  # other generators keep their own random numbers
    if ground == "held_out" and terrain.terrain_type == "generator":
        from ledger_lab.training.runners.held_out_terrain import held_out_generator, rows_in_all

        own = generator.class_type
        generator.class_type = (
            ResolvableString(f"{HELD_OUT_GENERATOR}:HeldOutTerrainGenerator")
            if stock
            else held_out_generator(string_to_callable(own) if isinstance(own, str) else own)
        )
        generator.num_rows = rows_in_all(generator)
    elif stock:
        generator.class_type = ResolvableString(f"{HELD_OUT_GENERATOR}:SeededTerrainGenerator")


@contextmanager
def simulation_app(env_cfg: ManagerBasedRLEnvCfg, launcher_args: dict[str, Any]) -> Iterator[None]:
    """Start the runtime that the physics engine needs, for the life of the process.

    Args:
        env_cfg: Resolved configuration of the environment.
        launcher_args: Isaac Lab's launcher flags.
    """
    # Isaac Lab imports moviepy 1 for videos, and Python warns about its source when it compiles it.
    warnings.filterwarnings("ignore", "invalid escape sequence", SyntaxWarning)
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
def environment(task: str, env_cfg: ManagerBasedRLEnvCfg, *, spread: bool = False) -> Iterator[ManagerBasedRLEnv]:
    """Create an environment, and close it at the end of the context. A process can have one at a time.

    Newton simulates each slot as a world of its own. All of them are at one origin, where rounding is the same in all
    slots, whatever ``env.scene.env_spacing`` says.

    On the CPU, torch computes in one thread within the context. So the actions of a policy that is scored do not depend
    on the number of cores; :meth:`~ledger_lab.training.runners.adapter.Trainer.compute_in` gives the learner more
    threads.

    Args:
        task: Gymnasium id.
        env_cfg: Resolved configuration.
        spread: Whether the worlds of Newton are ``env.scene.env_spacing`` apart, for people who watch.

    Raises:
        UserError: If the task is registered with a wrapper, or its physics can't be deterministic and should be.
    """
    sees = any(isinstance(part, RayCasterCfg) for part in vars(env_cfg.scene).values())
    import_environment(env_cfg)
    if sees:
        from isaaclab.sensors.ray_caster.base_ray_caster import BaseRayCaster

        # Isaac Lab keeps meshes by their paths as long as any ray caster exists, and an earlier simulation, whose ray
        # caster waits for the garbage collector, may have had another ground at the same path.
        BaseRayCaster.meshes.clear()
    with (
        nullcontext() if spread or not is_newton(env_cfg) else _worlds_at_one_origin(),
        _ordered_rays() if sees and physics_name(env_cfg) == "ovphysx" else nullcontext(),
        _gpu_faults_raised(env_cfg.sim.device),
        FirstErrorStack() as closing,
    ):
        with remembered_parameters():
            env = _made(task, env_cfg)
        closing.callback(env.close)
        _require_unwrapped(task, env)
        if is_direct(env_cfg):
            give_managers(env.unwrapped)
        if env_cfg.sim.device == "cpu":
            closing.enter_context(torch_threads(1))
        if physics_name(env_cfg) == NATIVE:
            closing.enter_context(required_part("native endings")(env))
        yield env


def _made(task: str, env_cfg: ManagerBasedRLEnvCfg) -> Any:  # noqa: ANN401 - with Gymnasium's wrappers
    """Create an environment; solvers and sensors of Newton that can't be deterministic are refused."""
    try:
        return gym.make(task, cfg=env_cfg)
    except ValueError as error:
        if is_newton(env_cfg) and env_cfg.sim.physics.deterministic and "determinis" in str(error):
            raise UserError(f"env.sim.physics.deterministic: leave it out: {first_line(error)}") from error
        raise


@contextmanager
def _worlds_at_one_origin() -> Iterator[None]:
    """Let Isaac Lab build scenes at one origin; their configurations keep the spacing, which terms may read."""
    from isaaclab.scene import InteractiveScene
    from isaaclab.terrains import TerrainImporterCfg

    build = InteractiveScene.__init__

    def build_at_one_origin(scene: Any, cfg: Any) -> None:  # noqa: ANN401 - Isaac Lab's scene and its configuration
        spacing, cfg.env_spacing = cfg.env_spacing, 0.0
        try:
            build(scene, cfg)
        finally:
            for part in (cfg, *(part for part in vars(cfg).values() if isinstance(part, TerrainImporterCfg))):
                part.env_spacing = spacing

    with replaced(InteractiveScene, __init__=build_at_one_origin):
        yield


@contextmanager
def _ordered_rays() -> Iterator[None]:
    """Let OvPhysX ray casters follow bodies in the order of the environments.

    Isaac Lab's ray casters take bodies and moving targets in the order in which OvPhysX lists them, which is by name.
    ``env_10`` then comes before ``env_2``, so with more than ten robots a sensor sees the surroundings of another
    robot. Isaac Lab's robot views and contact sensors correct the order; this does it for ray casters.
    """
    from isaaclab_ov import tensor_types
    from isaaclab_ov._clone import ordered_clone_paths
    from isaaclab_ov.physics import OvPhysxManager
    from isaaclab_ov.sensors.ray_caster.ray_caster import _OvPhysxRayCasterMixin as RayCasters

    begin, target = RayCasters._initialize_pose_tracking, RayCasters._create_tracked_target_view

    def in_order(poses: Any) -> Any:  # noqa: ANN401 - a binding of OvPhysX
        paths = list(poses.prim_paths)
        ordered = ordered_clone_paths(paths, [])
        if ordered == paths:
            return poses
        poses.destroy()
        physx = OvPhysxManager.get_physx_instance()
        return physx.create_tensor_binding(prim_paths=ordered, tensor_type=tensor_types.RIGID_BODY_POSE)

    def begin_in_order(sensor: Any) -> None:  # noqa: ANN401 - any of Isaac Lab's ray casters
        begin(sensor)
        if sensor._ovphysx_body_view is not None:  # None for a sensor that does not move
            sensor._ovphysx_body_view = in_order(sensor._ovphysx_body_view)

    def target_in_order(sensor: Any, paths: str | list[str]) -> Any:  # noqa: ANN401
        return in_order(target(sensor, paths))

    methods = {"_initialize_pose_tracking": begin_in_order, "_create_tracked_target_view": target_in_order}
    with replaced(RayCasters, **methods):
        yield


@contextmanager
def recorded_physics(env: ManagerBasedRLEnv) -> Iterator[None]:
    """Replay the physics step of an environment from a recording, if it runs on Newton on the CPU.

    On a GPU, Isaac Lab captures a physics step as a CUDA graph. On a CPU it launches hundreds of kernels one by one
    from Python, which takes several times as long as the kernels. Warp can record a step on the CPU as well, and replay
    it in C++. Only MuJoCo, by MuJoCo-Warp or by its own C code, is recorded; a test proves that replayed steps equal
    launched steps bit for bit.

    The first step is launched as usual and recorded; later steps are replayed. Isaac Lab discards the recording
    whenever it would discard a CUDA graph. ``env.sim.physics.use_cuda_graph=False`` turns this off.

    Args:
        env: The environment, as ``gym.make`` returns it.
    """
    from isaaclab_newton.physics import NewtonManager

    cfg = env.unwrapped.cfg
    if env.unwrapped.device != "cpu" or not is_mujoco(cfg) or not cfg.sim.physics.use_cuda_graph:
        yield
        return
    manager = string_to_callable(str(cfg.sim.physics.class_type))
    own = {name: vars(manager).get(name) for name in _STEPS}

    def recorded(launch: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            if NewtonManager._graph is None:
                launch()
                with warp.ScopedCapture(device="cpu") as capture:
                    launch()
                NewtonManager._graph = capture.graph
            else:
                warp.capture_launch(NewtonManager._graph)

        return replay

    for name in _STEPS:
        setattr(manager, name, staticmethod(recorded(getattr(manager, name))))
    try:
        yield
    finally:
        for name, step in own.items():
            delattr(manager, name)  # a base class's own step is visible again
            if step is not None:
                setattr(manager, name, step)
        NewtonManager._graph = None


def _require_unwrapped(task: str, env: gym.Env[Any, Any]) -> None:
    """Refuse wrappers around an environment, apart from those of Gymnasium that change nothing.

    Raises:
        UserError: If there is one.
    """
    while isinstance(env, gym.Wrapper):
        if not isinstance(env, OrderEnforcing | PassiveEnvChecker):
            kind = type(env)
            raise UserError(
                f"task {task} comes in the wrapper {kind.__module__}:{kind.__qualname__}: held-out episodes and saved "
                "states don't include wrappers; move what it does into terms (observations, actions, rewards), or into "
                "a subclass of the environment"
            )
        env = env.env


@contextmanager
def _gpu_faults_raised(device: str) -> Iterator[None]:
    """Raise the fault of a GPU in place of an error that memory could not be allocated.

    After a fault, such as an illegal memory access, every later call fails. If the first of them asks for memory, Warp
    and cuBLAS raise the same error as if there was too little memory.

    Args:
        device: The device.

    Raises:
        RuntimeError: In place of that error, if torch finds a fault.
    """
    try:
        yield
    except RuntimeError as error:
        if device != "cpu" and status_of(error) is Status.OUT_OF_MEMORY:
            try:
                torch.cuda.synchronize(device)
            except RuntimeError as fault:
                if is_device_fault(str(fault)):
                    raise RuntimeError(f"{first_line(fault)} (what failed first: {first_line(error)})") from error
        raise


def gpu_model(device: str) -> str | None:
    """Return the name of a GPU's model; ``None`` on a CPU."""
    return None if device == "cpu" else torch.cuda.get_device_name(device)


def gpu_uuid(device: str) -> str | None:
    """Return what identifies a GPU among all GPUs; ``None`` on a CPU."""
    return None if device == "cpu" else str(torch.cuda.get_device_properties(device).uuid)


def gpu_memory_bytes(device: str) -> int | None:
    """Return the device memory that torch's tensors and Warp's arrays take in this process; ``None`` on a CPU."""
    if device == "cpu":
        return None
    warp_bytes = warp.get_mempool_used_mem_current(device) if warp.is_mempool_enabled(device) else 0
    return torch.cuda.memory_allocated(device) + warp_bytes


def peak_gpu_memory_bytes(device: str) -> int | None:
    """Return the most device memory that torch and Warp held in this process; ``None`` on a CPU.

    The memory of PhysX is not included.
    """
    if device == "cpu":
        return None
    warp_bytes = warp.get_mempool_used_mem_high(device) if warp.is_mempool_enabled(device) else 0
    return torch.cuda.max_memory_reserved(device) + warp_bytes
