"""Newton's MuJoCo solver with the step of MuJoCo's C code, and its manager in Isaac Lab."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
import warp as wp
from isaaclab_newton.physics.mjwarp_manager import NewtonMJWarpManager
from newton.solvers import SolverMuJoCo

from ledger_lab.ledger.cores import own_cores
from ledger_lab.mujoco_cpu.step import Stepper
from ledger_lab.mujoco_cpu.threads import divide_launches
from ledger_lab.training.runners.recorded_calls import replaced

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv
    from newton import Contacts, Control, Model, State

    from ledger_lab.mujoco_cpu.cfg import MujocoSolverCfg


class NativeSolver(SolverMuJoCo):
    """Steps each world with ``mj_step``. Newton's conversions, controls and contacts are those of its MuJoCo solver."""

    stepper: Stepper
    """Steps the worlds."""

    def __init__(self, model: Model, *, threads: int = 0, **settings: Any) -> None:  # noqa: ANN401 - Newton's own
        """Compile the model.

        Args:
            model: Newton's model of all worlds.
            threads: Threads that step the worlds; 0 for all cores that this rank may use.
            settings: Settings of Newton's solver.
        """
        super().__init__(model, **settings)
        divide_launches()
        self.stepper = Stepper(self.mj_model, self.mjw_model, self.mjw_data, threads or own_cores())

    def step(self, state_in: State, state_out: State, control: Control, contacts: Contacts, dt: float) -> None:
        """Take a step of ``dt`` seconds; see Newton."""
        if self.stepper.timestep != dt:
            self.stepper.timestep = dt
        super().step(state_in, state_out, control, contacts, dt)

    def _mujoco_warp_step(self) -> None:
        """Step in place of MuJoCo-Warp: Newton has written state, controls and forces, and reads the results."""
        if self.mjw_model.sensor_rne_postconstraint:
            self.stepper.want_post_constraint()
        self.stepper.step(read=not self.stepper.unread)

    def _update_newton_state(self, model: Model, state: State, mj_data: Any, state_prev: State) -> None:  # noqa: ANN401
        """Convert the results of a step; without positions and velocities of bodies if nothing reads these."""
        with _without_kinematics() if self.stepper.unread else nullcontext():
            super()._update_newton_state(model, state, mj_data, state_prev)
        self.stepper.unread = max(0, self.stepper.unread - 1)

    def notify_model_changed(self, flags: int) -> None:
        """Take over changed properties; see Newton."""
        super().notify_model_changed(flags)
        if hasattr(self, "stepper"):  # Newton also calls this while it constructs the model
            self.stepper.refresh()


@contextmanager
def _without_kinematics() -> Iterator[None]:
    """Let Newton's solver skip forward kinematics."""
    from newton._src.solvers.mujoco import solver_mujoco

    with replaced(solver_mujoco, eval_fk=lambda *_: None):
        yield


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
            from ledger_lab.mujoco_cpu.meshes import require_convex_meshes

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


class Unstable:
    """Tells which environments became unstable in the last step of the environment."""

    def __init__(self, env: ManagerBasedRLEnv) -> None:
        """Begin with none.

        Args:
            env: An environment with the physics ``newton/mujoco``, as ``gym.make`` returns it.
        """
        stepper: Any = NewtonMJWarpManager._solver.stepper
        self._status, self._bits = wp.to_torch(stepper.status), stepper.UNSTABLE
        self.last = torch.zeros(env.unwrapped.num_envs, dtype=torch.bool)
        """Boolean tensor of shape (num_envs,)."""

    def look(self) -> torch.Tensor:
        """Look at the steps since the last call; return :attr:`last`."""
        torch.ne(self._status & self._bits, 0, out=self.last)
        self._status &= ~self._bits
        return self.last


@contextmanager
def ended_when_unstable(env: ManagerBasedRLEnv) -> Iterator[None]:
    """End the episodes of environments whose physics became unstable, within the context.

    MuJoCo calls a state unstable if a position, velocity or acceleration is not finite or is very large. It may also
    give up with an error, or have no memory for all contacts and constraints. Such an environment stays where it was
    before the step, without velocity. Its episode ends then, as if a termination of the task had ended it; of a
    held-out episode, it is a failure with a name of its own.

    Args:
        env: An environment with the physics ``newton/mujoco``, as ``gym.make`` returns it.
    """
    manager, unstable = env.unwrapped.termination_manager, Unstable(env)
    compute = manager.compute

    def compute_terminations() -> torch.Tensor:
        done: torch.Tensor = compute()
        if unstable.look().any():
            manager._terminated_buf |= unstable.last
            manager._truncated_buf &= ~unstable.last  # nothing is expected after the end
            done = done | unstable.last
        return done

    manager.compute, manager.unstable = compute_terminations, unstable
    try:
        yield
    finally:
        del manager.compute, manager.unstable
