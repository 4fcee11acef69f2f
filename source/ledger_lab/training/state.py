"""The file that a training is resumed from: when it is written, and what is in it."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch

from ledger_lab.errors import UserError
from ledger_lab.files import file_sha256, whole_file
from ledger_lab.ledger import STATE_FILE, Row, StateRestored, StateSaved
from ledger_lab.meters import Phase, PhaseClock
from ledger_lab.runners import Trainer
from ledger_lab.runners.process_group import ProcessGroup
from ledger_lab.training.judge import Judge
from ledger_lab.training.plan import TrainPlan
from ledger_lab.training.request import STATE_AT_LATEST_S
from ledger_lab.training.resume import Resumption, require_whole
from ledger_lab.training.simulation_state import SimulationState

_FORMAT = 2
"""Format of the file. Files without a number are older."""


class StateKeeper:
    """Keeps one state of a training on disk; the last one stays until the next one is whole."""

    def __init__(
        self,
        plan: TrainPlan,
        group: ProcessGroup,
        trainer: Trainer,
        simulation: SimulationState,
        judge: Judge | None,
        append: Callable[[Row], None],
        clock: PhaseClock,
    ) -> None:
        """Begin with nothing saved.

        Args:
            plan: The run.
            group: Its processes, all of which call every method.
            trainer: Its training loop.
            simulation: The state of its simulation.
            judge: Who judges its policies, if anybody does.
            append: Writes a row.
            clock: The attempt's clock.
        """
        self._plan, self._path, self._group = plan, plan.run_dir / STATE_FILE, group
        self._next = plan.run_dir / f"journal-{plan.attempt + 1}-0.jsonl"
        self._every, self._at_latest_s = plan.batch.save_interval, STATE_AT_LATEST_S
        if plan.request.save_state_every is not None:
            self._every, self._at_latest_s = plan.request.save_state_every, math.inf
        self._trainer, self._simulation, self._judge = trainer, simulation, judge
        self._append, self._clock = append, clock
        self._last: int | None = None
        self._last_s = time.monotonic()
        self._insisted = False

    @property
    def overdue(self) -> bool:
        """Whether the first process finds the last state too old; the others have no say, as their clocks differ."""
        return self._group.world.first and time.monotonic() - self._last_s > self._at_latest_s

    def insist(self) -> None:
        """Save after this iteration, whether it is due or not."""
        self._insisted = True

    def after_iteration(self, iterations: int, env_steps: int) -> bool:
        """Save what the training goes on from, if it is time to.

        Args:
            iterations: Iterations completed.
            env_steps: Environment steps of all processes so far.

        Returns:
            Whether it was saved.

        Raises:
            RuntimeError: If a later attempt of the run has begun, which took this one for lost.
        """
        if self._group.world.first and self._next.exists():
            raise RuntimeError("this attempt was silent for so long that a later one goes on with the run")
        due = self._every > 0 and (self._last is None or iterations - self._last >= self._every)
        if not due and not self._insisted:
            return False
        self._last, self._insisted = iterations, False
        with self._clock.window(Phase.CHECKPOINT):
            self._save(iterations, env_steps)
        self._last_s = time.monotonic()
        return True

    def begin(self) -> None:
        """Bring the training to where it begins: to the state on disk, or to the networks of a checkpoint.

        Raises:
            UserError: If the state on disk can't be resumed from, or the networks don't fit.
        """
        if self._plan.resumed is not None:
            self._restore(self._plan.resumed)
        elif self._plan.beginning is not None:
            self._trainer.begin(self._group.file(self._plan.beginning.path))

    def _restore(self, resumed: Resumption) -> None:
        """Let everybody go on from the state on disk, and say so in the ledger.

        Args:
            resumed: The run, and its state.
        """
        group, saved = self._group, resumed.state
        if group.world.first:
            require_whole(self._path, saved.sha256)  # an attempt that was taken for lost may have saved since
        state = torch.load(group.file(self._path), weights_only=True, map_location="cpu")
        if state.get("format") != _FORMAT:
            raise UserError(
                f"{self._path} was saved by another version of LedgerLab: resume with that version, or start a new run"
            )
        mine = torch.load(io.BytesIO(state["processes"][group.world.rank].numpy().tobytes()), weights_only=True)
        self._trainer.restore(state["learner"])
        troubles = [each for each in group.gather(self._simulation.put(mine["simulation"])) if each is not None]
        if self._simulation.inexact is not None:
            troubles.append(self._simulation.inexact)
        whole = not troubles
        if not whole:
            self._simulation.begin_anew()
        if self._judge is not None:
            self._judge.resume(mine["judge"], resumed.results, whole)
        reasons = [*resumed.reasons, *troubles]
        if group.world.first:
            self._append(
                StateRestored(
                    sha256=saved.sha256,
                    attempt=resumed.saved_by,
                    saved_wall_ns=saved.wall_ns,
                    iteration=saved.iteration,
                    env_steps=saved.env_steps,
                    exactness="statistical" if reasons else "bitwise",
                    reasons=reasons,
                    wall_ns=self._clock.wall_ns(),
                )
            )
        self._last, self._last_s = saved.iteration, time.monotonic()

    def _save(self, iterations: int, env_steps: int) -> None:
        """Write the file: of the learner, which is the same in all processes, and of each one's simulation.

        The row comes first: whenever the process ends, the file that has the name is one that a row knows.
        """
        part = io.BytesIO()
        judged = None if self._judge is None else self._judge.state()
        torch.save({"simulation": self._simulation.take(), "judge": judged}, part)
        parts = self._group.gather_bytes(part.getvalue())
        learner = self._trainer.state()
        if not self._group.world.first:
            return
        processes = [torch.frombuffer(bytearray(each), dtype=torch.uint8) for each in parts]
        with whole_file(self._path) as unfinished:
            torch.save({"format": _FORMAT, "learner": learner, "processes": processes}, unfinished)
            self._append(
                StateSaved(
                    sha256=file_sha256(unfinished),
                    size_bytes=unfinished.stat().st_size,
                    iteration=iterations,
                    env_steps=env_steps,
                    exactness="bitwise" if self._simulation.inexact is None else "statistical",
                    wall_ns=self._clock.wall_ns(),
                )
            )


def remove_states(run_dir: Path) -> None:
    """Remove the state of a run that is over, and states that were never whole.

    Args:
        run_dir: The run's directory.
    """
    for state in run_dir.glob(f"{STATE_FILE}*"):
        state.unlink()
