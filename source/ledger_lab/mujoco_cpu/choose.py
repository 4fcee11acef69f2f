"""Chooses MuJoCo's C code for a task, and refuses what it cannot simulate here.

``physics=newton_mujoco`` takes the settings of ``physics=newton_mjwarp``.

So every manager-based task with settings for MuJoCo-Warp has the engine, and settings that both name mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ledger_lab.errors import UserError
from ledger_lab.ledger.control_groups import usable_bytes
from ledger_lab.ledger.cores import own_cores
from ledger_lab.training.runners.physics_engine import NATIVE_CHOICE, WARP_CHOICE, physics_choices

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg
    from isaaclab.physics import PhysicsCfg
    from isaaclab_newton.physics import NewtonCfg

_COLLISIONS, _CONTACTS = "env.sim.physics.collision_cfg", "env.sim.physics.solver_cfg.use_mujoco_contacts"
"""Settings of Newton's own contacts, which MuJoCo-Warp can use."""

_PROCESS_BYTES = 1.04e9
"""Memory of a process without its environments, and without a learner."""

BYTES_PER_ENVIRONMENT = {
    "LedgerLab-Ant": 80e3,
    "LedgerLab-Cartpole": 18e3,
    "LedgerLab-Humanoid": 0.13e6,
    "LedgerLab-Lift-Cube-Franka": 0.13e6,
    "LedgerLab-Navigation-Flat-AnymalC": 0.27e6,
    "LedgerLab-Reach-Franka": 0.1e6,
    "LedgerLab-Velocity-Flat-AnymalC": 0.18e6,
    "LedgerLab-Velocity-Flat-Go2": 0.13e6,
    "LedgerLab-Velocity-Rough-AnymalC": 0.48e6,
}
"""Memory of an environment of the included tasks, without a learner; ``python -m benchmarks native`` measures it."""

_LEAST, _MOST = min(BYTES_PER_ENVIRONMENT.values()), max(BYTES_PER_ENVIRONMENT.values())
"""Memory of an environment of the smallest and of the largest of these tasks."""


def require_warp_settings(task: str, overrides: Sequence[str]) -> None:
    """Refuse a task without settings for MuJoCo-Warp, and overrides of settings that MuJoCo's C code does not have.

    Args:
        task: Gymnasium id.
        overrides: Hydra overrides.

    Raises:
        UserError: If the task has none, or an override would have no effect.
    """
    known = physics_choices(task)
    if NATIVE_CHOICE.partition("=")[2] not in known:
        raise UserError(
            f"{NATIVE_CHOICE}: task {task} has no {WARP_CHOICE}, whose settings it takes: choose from "
            + (", ".join(known) or "none: the task's physics is fixed")
        )
    for override in overrides:
        key, _, value = override.partition("=")
        if key.startswith(_COLLISIONS) or (key == _CONTACTS and value.lower() != "true"):
            raise UserError(
                f"override {override!r} belongs to {WARP_CHOICE}, and the physics is {NATIVE_CHOICE}, which finds its "
                f"contacts itself: leave the override out, or choose {WARP_CHOICE}"
            )


def native_physics(physics: PhysicsCfg) -> NewtonCfg:
    """Return the settings for MuJoCo's C code that equal settings for MuJoCo-Warp.

    MuJoCo finds all contacts itself, where MuJoCo-Warp may leave that to Newton.

    Args:
        physics: Settings of Newton with MuJoCo-Warp.

    Raises:
        UserError: If they are settings of another solver.
    """
    from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg

    from ledger_lab.mujoco_cpu.cfg import MujocoSolverCfg

    if not isinstance(physics, NewtonCfg) or not isinstance(physics.solver_cfg, MJWarpSolverCfg):
        named = type(getattr(physics, "solver_cfg", physics)).__name__
        raise UserError(
            f"{NATIVE_CHOICE}: the task's {WARP_CHOICE} has settings of another solver, {named}: choose another physics"
        )
    chosen_by_class = ("class_type", "solver_type")
    solver = {name: value for name, value in vars(physics.solver_cfg).items() if name not in chosen_by_class}
    settings: dict[str, Any] = {name: value for name, value in vars(physics).items() if name != "class_type"}
    solver |= {"use_mujoco_contacts": True, "refuse_concave_meshes": not physics.solver_cfg.use_mujoco_contacts}
    settings |= {"collision_cfg": None, "solver_cfg": MujocoSolverCfg(**solver)}
    return NewtonCfg(**settings)


def require_fit(env_cfg: ManagerBasedRLEnvCfg, cpu_threads: int | None) -> None:
    """Set the number of threads, and refuse what MuJoCo's C code cannot simulate here.

    Args:
        env_cfg: Resolved configuration with this physics, and with its device.
        cpu_threads: Threads that step the environments; ``None`` for all cores that the process may use.

    Raises:
        UserError: If the device is a GPU, the process has fewer cores, or the settings are those of other solvers.
    """
    if env_cfg.sim.device != "cpu":
        raise UserError(
            f"{NATIVE_CHOICE} runs on the CPU, and the device is {env_cfg.sim.device}: give --device cpu, or choose "
            f"{WARP_CHOICE}"
        )
    from isaaclab.assets import CableObjectCfg, DeformableObjectCfg

    for name, part in vars(env_cfg.scene).items():
        if isinstance(part, CableObjectCfg | DeformableObjectCfg):
            kind = type(part).__name__.removesuffix("Cfg")
            raise UserError(
                f"{NATIVE_CHOICE} simulates rigid bodies, and env.scene.{name} is a {kind}: choose another physics"
            )
    cores = own_cores()
    if cpu_threads is not None and not 1 <= cpu_threads <= cores:
        raise UserError(
            f"--cpu_threads {cpu_threads}: must be between 1 and {cores}, the cores that this process and its control "
            "group may use"
        )
    solver = env_cfg.sim.physics.solver_cfg
    solver.cpu_threads = cpu_threads or 0
    if solver.use_mujoco_cpu or not solver.use_mujoco_contacts or env_cfg.sim.physics.deterministic:
        raise UserError(
            f"{NATIVE_CHOICE}: leave out env.sim.physics.solver_cfg.use_mujoco_cpu and use_mujoco_contacts, and "
            "env.sim.physics.deterministic: MuJoCo finds its contacts itself, and repeats bit for bit. Or choose "
            f"{WARP_CHOICE}"
        )


def fitting_environments(
    task: str, env_cfg: ManagerBasedRLEnvCfg, processes: int = 1, *, cautious: bool = False
) -> int:
    """Return for how many environments of MuJoCo's C code each process has memory.

    Args:
        task: Gymnasium id.
        env_cfg: Resolved configuration with this physics.
        processes: Processes on this machine.
        cautious: Whether an environment of a task that is not included is taken to need as much as one of the largest
            included task. By default, it is taken to need as little as one of the smallest: more do not fit.

    Returns:
        The number of environments, held-out slots included.
    """
    each = BYTES_PER_ENVIRONMENT.get(task, _MOST if cautious else _LEAST)
    return max(0, int((usable_bytes() / processes - _PROCESS_BYTES) // each))


def require_memory(task: str, env_cfg: ManagerBasedRLEnvCfg, processes: int = 1) -> None:
    """Refuse environments of MuJoCo's C code that do not fit into the memory of this machine.

    Args:
        task: Gymnasium id.
        env_cfg: Resolved configuration, with all environments of a process, held-out slots included.
        processes: Processes on this machine.

    Raises:
        UserError: If they need more than the process can still take.
    """
    num_envs, fitting = env_cfg.scene.num_envs, fitting_environments(task, env_cfg, processes)
    if num_envs <= fitting:
        return
    needed = processes * (_PROCESS_BYTES + num_envs * BYTES_PER_ENVIRONMENT.get(task, _LEAST))
    several = f" in each of {processes} processes" if processes > 1 else ""
    raise UserError(
        f"{NATIVE_CHOICE}: {num_envs} environments{several} need "
        f"{'about' if task in BYTES_PER_ENVIRONMENT else 'at least'} {needed / 1e9:.1f} GB of memory, and "
        f"{usable_bytes() / 1e9:.1f} GB are free: there is room for {fitting}, held-out slots included"
    )
