"""Memory that the environments of ``physics=newton_mujoco`` need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.memory_limits import usable_bytes
from ledger_lab.training.runners.physics_engine import NATIVE_CHOICE

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

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
