"""Configuration of the solver that ``physics=newton_mujoco`` chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isaaclab.utils import configclass
from isaaclab_newton.physics import MJWarpSolverCfg

if TYPE_CHECKING:
    from isaaclab_newton.physics import NewtonManager


@configclass
class MujocoSolverCfg(MJWarpSolverCfg):
    """MuJoCo's C code on the cores of a CPU, in double precision.

    Settings that it shares with :class:`~isaaclab_newton.physics.MJWarpSolverCfg` mean the same. Two differ:

    * ``use_mujoco_contacts`` must be ``True``: MuJoCo finds its contacts itself, also on height fields.
    * ``njmax`` and ``nconmax`` bound what sensors can see of a world, not what is simulated: MuJoCo allocates
      constraints as it needs them.
    """

    class_type: type[NewtonManager] | str = "ledger_lab.mujoco_cpu.solver:NewtonNativeManager"
    """Manager class for the solver."""

    solver_type: str = "mujoco"
    """Solver type."""

    refuse_concave_meshes: bool = False
    """Whether concave meshes that collide are refused. MuJoCo's C code would replace them by their convex hulls. It is
    true for tasks that let Newton find the contacts of MuJoCo-Warp, because Newton collides such meshes as they are."""

    cpu_threads: int = 0
    """Threads that step the worlds. 0: as many as the process may use cores, shared among the ranks of a machine."""
