"""The training loop of a run, the work after each of its iterations, and how its episodes end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console

from ledger_lab.ledger import UNSTABLE, CheckpointSaved, Status
from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.reports.loggers.sink import start_loggers
from ledger_lab.reports.terminal.progress import Progress, judged
from ledger_lab.training.health.monitor import HealthWatch
from ledger_lab.training.judge import Judge
from ledger_lab.training.plan import TrainPlan
from ledger_lab.training.ranks import Agreement, GradientWatch, agree_on_ending, compare_learners
from ledger_lab.training.runners import Trainer
from ledger_lab.training.runners.process_group import ProcessGroup
from ledger_lab.training.runners.recorded_calls import replaced
from ledger_lab.training.state import StateKeeper
from ledger_lab.training.supervision.attempt import Attempt
from ledger_lab.training.writer import RunWriter
from ledger_lab.units import quantity

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def record_checkpoint(plan: TrainPlan, writer: RunWriter, path: Path, iterations: int) -> CheckpointSaved:
    """Record a checkpoint that was saved.

    Only the first process keeps the file: the policies of all processes are the same.

    Args:
        plan: The run.
        writer: Writes the rows of this process.
        path: The checkpoint's file.
        iterations: Iterations completed when it was saved.

    Returns:
        The row.
    """
    saved = writer.checkpoint(path, iterations, iterations * plan.declared.env_steps_per_iteration)
    if not plan.world.first:
        path.unlink()  # the other processes often save in memory
    return saved


class LimitReachedError(RuntimeError):
    """A run used up its ``--limit_s``; the reason that its end row holds."""


@dataclass(frozen=True, kw_only=True)
class TimeLimit:
    """Limit of the wall-clock time of a run over all its attempts, with scoring, as it is billed."""

    limit_s: float | None
    """The limit [s]; ``None`` for no limit."""
    spent_ns: int
    """Time of earlier attempts, including work that was lost [ns]."""
    wall_ns: Callable[[], int]
    """Returns the age of this attempt [ns]."""

    def elapsed_s(self) -> float:
        """Return the age of the run: the time of all attempts [s]."""
        return (self.spent_ns + self.wall_ns()) / 1e9

    @property
    def passed(self) -> bool:
        """Whether the time is used up. The clocks of processes differ, so they must agree on the answer."""
        return self.limit_s is not None and self.elapsed_s() >= self.limit_s

    def error(self, when: str) -> LimitReachedError:
        """Return the reason of the end.

        Args:
            when: What the run was doing, or had done.
        """
        return LimitReachedError(
            f"--limit_s {self.limit_s:g} was used up {when}, after {self.elapsed_s():.1f} s in all attempts"
        )


class TrainingLoop:
    """Runs a library's training loop, with the work of LedgerLab after each iteration.

    The work is: write a row, check the health, score policies, save the state, and decide whether to end.
    """

    def __init__(
        self,
        plan: TrainPlan,
        group: ProcessGroup,
        attempt: Attempt,
        writer: RunWriter,
        watch: HealthWatch,
        trainer: Trainer,
        judge: Judge | None,
        keeper: StateKeeper,
        take_endings: Callable[[], dict[str, int]],
        console: Console,
    ) -> None:
        """Set the loop up.

        Args:
            plan: The run.
            group: The processes of the run; all of them run this loop.
            attempt: The attempt of this process.
            writer: Writes the rows of this process.
            watch: Reports health events.
            trainer: The library's training loop.
            judge: Judges the policies; ``None`` if the run judges none.
            keeper: Saves the state that a later attempt resumes from.
            take_endings: Returns the training episodes of this process that each termination ended since the last call.
            console: Shows the progress.
        """
        self._plan, self._group, self._attempt, self._writer = plan, group, attempt, writer
        self._watch, self._trainer, self._judge, self._keeper = watch, trainer, judge, keeper
        self._take_endings = take_endings
        self._gradients = GradientWatch(plan.world, plan.batch.max_iterations, writer.append)
        spent_ns = 0 if plan.resumed is None else plan.resumed.spent_ns
        self.limit = TimeLimit(limit_s=plan.request.limit_s, spent_ns=spent_ns, wall_ns=writer.clock.wall_ns)
        """How long the run may take."""
        self._earlier = 0 if plan.resumed is None else plan.resumed.state.iteration
        self._limited_at: int | None = None
        """The iteration in which the run's time was used up."""
        most = plan.batch.max_iterations
        self._progress = Progress(console, "training, iteration", most, self._earlier, self.limit.elapsed_s)

    def run(self) -> Status:
        """Train to the end of the budget, the time limit, the target, a health event or a signal.

        The first of them ends the training.

        Returns:
            ``stopped`` if a health event ended the training, or ``limit_reached`` if the run's time is used up (the
            attempt then holds the reason), else ``completed``.

        Raises:
            KeyboardInterrupt: If the user interrupted the training before all was done.
            Terminated: If the system asked the process to end before all was done.
        """
        with self._progress:
            self._group.any(False)  # waiting for the other processes counts as start-up
            self._attempt.begin()  # in all processes, which have all passed the checks of their simulations
            start_loggers(self._plan.run_dir, self._plan.request.logger if self._plan.world.first else [])
            if self._group.any(self._plan.world.first and self.limit.passed):
                self._attempt.error = self.limit.error("by the start-up: nothing was trained in this attempt")
                return Status.LIMIT_REACHED
            self._writer.clock.set_base(Phase.UNATTRIBUTED)
            ending = self._watch.ending() if self._plan.world.first else nullcontext()
            with self._attempt.signals_deferred(), ending, self._gradients.measuring(self._trainer):
                self._trainer.train(self.on_iteration)
        if self._limited_at is not None:
            self._attempt.error = self.limit.error(f"in iteration {self._limited_at}")
            return Status.LIMIT_REACHED
        agreed = self._agree()
        if agreed.stopped:
            return Status.STOPPED
        if agreed.end_signal is not None and (self._judge is None or not self._judge.ends_training):
            self._attempt.leave()
        return Status.COMPLETED

    def on_iteration(self, iterations: int, figures: Mapping[str, float]) -> bool:
        """Write rows, compare the learners, score policies, show progress and save the state, in this order.

        Args:
            iterations: Iterations completed.
            figures: Figures of the iteration, by the names of :data:`ledger_lab.ledger.FIGURES`.

        Returns:
            Whether to go on training.

        Raises:
            FloatingPointError: If a figure is not finite.
            RanksDifferError: If the learners of the processes differ.
        """
        plan, writer = self._plan, self._writer
        writer.iteration, writer.env_steps = iterations, iterations * plan.declared.env_steps_per_iteration
        phase_ns, _ = writer.beat(figures)
        endings = self._take_endings()
        endings = dict(zip(endings, self._group.total(list(endings.values())), strict=True))
        writer.count_endings(endings)
        if plan.world.first:
            self._watch.on_iteration(iterations, plan.declared.env_steps_per_iteration, figures, phase_ns, endings)
        if spoiled := [name for name, value in figures.items() if not math.isfinite(value)]:
            raise FloatingPointError(f"{', '.join(spoiled)} not finite at iteration {iterations}")
        with writer.clock.window(Phase.LOG):
            self._gradients.after_iteration(iterations)
        compare_learners(self._group, iterations, self._earlier, self._trainer, writer.clock, writer.append)
        if self._judge is not None:
            self._take_results(self._judge, iterations)
        self._show(iterations, figures)
        if self._judge is not None and self._judge.ends_training:
            return False
        self._attempt.error = self._watch.stopped
        agreed = self._agree()
        if agreed.stopped:
            return False
        if agreed.limit_passed and iterations < plan.batch.max_iterations:
            self._limited_at = iterations
            return False
        if agreed.ends or agreed.state_overdue or iterations == plan.batch.max_iterations:
            self._keeper.insist()
        self._attempt.resumable |= self._keeper.after_iteration(iterations, writer.env_steps)
        return not agreed.ends

    def _agree(self) -> Agreement:
        """Agree with the other processes on whether the run ends, and whether its state is too old."""
        attempt, first = self._attempt, self._plan.world.first
        mine = Agreement(attempt.error is not None, attempt.asked, self._keeper.overdue, first and self.limit.passed)
        agreed = agree_on_ending(self._group, mine)
        if agreed.end_signal is not None and not agreed.stopped:
            attempt.heed(agreed.end_signal)
        return agreed

    def _take_results(self, judge: Judge, iterations: int) -> None:
        """Let the judge continue, and check its results for health events."""
        for found in judge.after_iteration(iterations):
            if found.result.purpose == "proof":
                self._keeper.insist()  # the error budget that it used must stay used after a crash
            if self._plan.world.first:
                self._watch.on_panel(found.result, found.saved.iteration)

    def _show(self, iterations: int, figures: Mapping[str, float]) -> None:
        """Show the progress."""
        writer, judge = self._writer, self._judge
        parts = [f"{quantity(writer.env_steps)} steps"]
        if (loop_ns := writer.train_ns + writer.evaluate_ns) > 0:
            scoring = " with scoring" if writer.evaluate_ns else ""
            parts.append(f"{quantity(1e9 * writer.env_steps / loop_ns)} steps/s{scoring}")
        if "mean_return" in figures:
            parts.append(f"return {figures['mean_return']:.2f}")
        if judge is not None:
            parts += [] if judge.last is None else [judged(judge.last)]
            parts += ["proof running"] if judge.proving else []
        self._progress.advance(iterations, " · ".join(parts))


class EpisodeEndings:
    """Number of training episodes that each termination term has ended.

    If several terms end an episode in the same step, the first of them counts, in the order of the configuration. If
    the physics became unstable in that step, the episode counts as ``unstable`` instead. Outcomes of held-out episodes
    follow the same rules.
    """

    def __init__(self, env: ManagerBasedRLEnv, training_slots: int) -> None:
        """Start with no episode ended.

        Args:
            env: The environment, as ``gym.make`` returns it.
            training_slots: Number of training slots; the slots after them are held out, and do not count.
        """
        self._manager, self._training_slots = env.unwrapped.termination_manager, training_slots
        tells = self._unstable() is not None
        self._names = [*self._manager.active_terms, *([UNSTABLE] if tells else [])]
        self._counts = self._ended_by().sum(dim=0).zero_()
        """Episodes per name since the last :meth:`take`; shape (names,), on the device of the environment."""

    @property
    def time_outs(self) -> frozenset[str]:
        """Names of the terms that are time-outs."""
        manager = self._manager
        return frozenset(name for name in manager.active_terms if manager.get_term_cfg(name).time_out)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the episodes that end inside the context. No step waits for the device."""
        compute = self._manager.compute

        def compute_and_count() -> torch.Tensor:
            done = compute()
            self._counts += self._ended_by().sum(dim=0)
            return done

        with replaced(self._manager, compute=compute_and_count):
            yield

    def take(self) -> dict[str, int]:
        """Return the number of episodes that each term has ended since the last call. Waits for the device.

        Returns:
            All terms in the order of the configuration, those that ended no episode included; and ``unstable`` if the
            physics tells which environments became unstable.
        """
        taken = dict.fromkeys(self._names, 0)
        for name, count in zip(self._names, self._counts.tolist(), strict=True):
            taken[name] += count  # a task may have a term of the name "unstable"
        self._counts.zero_()
        return taken

    def _ended_by(self) -> torch.Tensor:
        """Return what ended each training episode in this step; boolean tensor of shape (slots, names)."""
        fired = self._manager._term_dones[: self._training_slots]
        first = fired & (fired.cumsum(dim=1) == 1)
        unstable = self._unstable()
        if unstable is None:
            return first
        unstable = unstable[: self._training_slots, None]
        return torch.cat((first & ~unstable, unstable), dim=1)

    def _unstable(self) -> torch.Tensor | None:
        """Return which environments became unstable in the last step; ``None`` if the physics cannot tell."""
        ending = getattr(self._manager, "unstable", None)
        return None if ending is None else ending.last
