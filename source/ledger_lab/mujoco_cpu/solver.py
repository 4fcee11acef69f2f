"""Newton's MuJoCo solver with the step of MuJoCo's C code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from newton.solvers import SolverMuJoCo

from ledger_lab.ledger.cores import own_cores
from ledger_lab.mujoco_cpu.step import Stepper
from ledger_lab.mujoco_cpu.threads import divide_launches

if TYPE_CHECKING:
    from newton import Contacts, Control, Model, State


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

    kinematics = solver_mujoco.eval_fk
    solver_mujoco.eval_fk = lambda *_: None
    try:
        yield
    finally:
        solver_mujoco.eval_fk = kinematics
