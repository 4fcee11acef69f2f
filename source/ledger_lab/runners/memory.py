"""Memory that the environments of ``physics=newton_mujoco`` need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger_lab.errors import UserError
from ledger_lab.meters.control_groups import usable_bytes
from ledger_lab.native.choose import NATIVE_CHOICE
from ledger_lab.physics import NATIVE, physics_name

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

_LEAST = min(BYTES_PER_ENVIRONMENT.values())
"""Memory of an environment of any other task, at least."""


def require_memory(task: str, env_cfg: ManagerBasedRLEnvCfg, processes: int = 1) -> None:
    """Refuse environments of MuJoCo's C code that do not fit into the memory of this machine.

    Args:
        task: Gymnasium id.
        env_cfg: Resolved configuration, with all environments of a process, held-out slots included.
        processes: Processes on this machine.

    Raises:
        UserError: If they need more than the process can still take.
    """
    if physics_name(env_cfg) != NATIVE:
        return
    num_envs, known = env_cfg.scene.num_envs, task in BYTES_PER_ENVIRONMENT
    each = BYTES_PER_ENVIRONMENT.get(task, _LEAST)
    needed, free = processes * (_PROCESS_BYTES + num_envs * each), usable_bytes()
    if needed > free:
        several = f" in each of {processes} processes" if processes > 1 else ""
        fitting = max(0, int((free / processes - _PROCESS_BYTES) // each))
        raise UserError(
            f"{NATIVE_CHOICE}: {num_envs} environments{several} need {'about' if known else 'at least'} "
            f"{needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free: there is room for "
            f"{fitting}, held-out slots included"
        )
