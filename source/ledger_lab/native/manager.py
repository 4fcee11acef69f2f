"""The physics manager of Isaac Lab for :class:`~ledger_lab.native.solver.NativeSolver`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isaaclab_newton.physics.mjwarp_manager import NewtonMJWarpManager
from newton.solvers import SolverMuJoCo

from ledger_lab.native.solver import NativeSolver

if TYPE_CHECKING:
    from newton import Model

    from ledger_lab.native.cfg import MujocoSolverCfg


class NewtonNativeManager(NewtonMJWarpManager):
    """Steps a Newton scene with MuJoCo's C code; all else is as with MuJoCo-Warp."""

    @classmethod
    def _create_solver(cls, model: Model, solver_cfg: MujocoSolverCfg) -> NativeSolver:
        """Construct the solver.

        Args:
            model: Newton's model of all worlds.
            solver_cfg: The settings.
        """
        # Isaac Lab keeps the settings that the constructor names; that of NativeSolver does not name Newton's.
        settings = cls._filter_solver_kwargs(SolverMuJoCo, solver_cfg)
        settings.pop("ls_parallel", None)  # deprecated in Newton, which warns whenever it is given
        return NativeSolver(model, threads=solver_cfg.cpu_threads, **settings)
