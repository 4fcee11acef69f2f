"""The physics manager of Isaac Lab for :class:`~ledger_lab.mujoco_cpu.solver.NativeSolver`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from isaaclab_newton.physics.mjwarp_manager import NewtonMJWarpManager
from newton.solvers import SolverMuJoCo

from ledger_lab.mujoco_cpu.meshes import require_convex_meshes
from ledger_lab.mujoco_cpu.solver import NativeSolver

if TYPE_CHECKING:
    from newton import Model

    from ledger_lab.mujoco_cpu.cfg import MujocoSolverCfg


class NewtonNativeManager(NewtonMJWarpManager):
    """Steps a Newton scene with MuJoCo's C code; all else is as with MuJoCo-Warp.

    Isaac Lab may take several steps of the solver at once. Between these steps, only motors that Newton computes read
    results, and they read only joint positions and velocities. So body positions, forces and contacts are computed only
    after the last step.
    """

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
        if solver_cfg.refuse_concave_meshes:
            require_convex_meshes(model)
        return NativeSolver(model, threads=solver_cfg.cpu_threads, **settings)

    @classmethod
    def _simulate_full(cls) -> None:
        """Take all steps of an environment step; see Isaac Lab."""
        cls._expect(cls._decimation * cls._num_substeps)
        super()._simulate_full()

    @classmethod
    def _simulate_physics_only(cls) -> None:
        """Take the steps between two computations of motors; see Isaac Lab."""
        cls._expect(cls._num_substeps)
        super()._simulate_physics_only()

    @classmethod
    def _expect(cls, steps: int) -> None:
        """Tell the solver that only the last of its next steps is read.

        Args:
            steps: Number of steps.
        """
        only_motors = all(each.__module__.startswith("isaaclab") for each in cls._post_actuator_callbacks)
        solver: Any = cls._solver
        solver.stepper.unread = steps - 1 if only_motors and not cls._state_force_callbacks else 0
