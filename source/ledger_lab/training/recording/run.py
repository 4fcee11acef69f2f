"""A recorded run: writes its rows, and exactly one final status."""

from __future__ import annotations

import operator
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Literal, Self

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import FIGURES, CheckpointSaved, Journal, Outcomes, PanelResult, RunDeclared, Status, endings
from ledger_lab.ledger.meters import Phase, PhaseClock
from ledger_lab.panels import VerdictRule
from ledger_lab.panels.verdict import NextPanel, Verdict
from ledger_lab.training.recording.panel import RecordedPanel
from ledger_lab.training.recording.writer import RunWriter, require_outcomes


class Terminated(endings.Terminated, SystemExit):
    """The system asked the process to end (SIGTERM); if not caught, it ends the program like a SystemExit."""


class RecordedRun(AbstractContextManager["RecordedRun"]):
    """A run that a trainer records into its journal, inside a ``with`` block. :func:`record_run` makes one."""

    def __init__(
        self,
        declared: RunDeclared,
        panel: RecordedPanel,
        directory: Path,
        rule: VerdictRule,
        clock: PhaseClock,
        peak_gpu_memory_bytes: Callable[[], int | None],
    ) -> None:
        """Take the run's declaration, and the panel that it declares."""
        self.run_id = declared.run_id
        self.directory = directory
        """The run's directory; save checkpoints inside it."""
        self.rule = rule
        self.target_reached = False
        """Whether a confirmation proved a checkpoint."""
        self._panel, self._declared, self._clock = panel, declared, clock
        self._peak_gpu_memory_bytes = peak_gpu_memory_bytes
        self._verdict = Verdict(rule)
        self._journal: Journal | None = None
        self._writer: RunWriter | None = None
        self._pid = os.getpid()
        self._saved: set[tuple[str, str]] = set()
        """Checkpoints that the run recorded: paths and hashes."""
        self._handles_sigterm = False
        self._seen: set[int] = set()
        """Seeds that were drawn for confirmations."""
        self._drawn: tuple[str, RecordedPanel] | None = None
        """The panel that was drawn and is not recorded yet, after the hash of its checkpoint."""

    def __enter__(self) -> Self:
        """Write the declaration before anything else happens."""
        self._pid = os.getpid()
        self._journal = Journal(self.directory / "journal-1-0.jsonl")
        self._writer = RunWriter(
            self._journal.append,
            self._clock,
            run_id=self.run_id,
            directory=self.directory,
            device=self._declared.device,
            peak_gpu_memory_bytes=self._peak_gpu_memory_bytes,
        )
        self._writer.declare(self._declared)
        self._writer.start()
        self._writer.beat()
        # Keep a handler that the user has set. Python sets handlers in the main thread only.
        in_main = threading.current_thread() is threading.main_thread()
        self._handles_sigterm = in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._handles_sigterm:
            signal.signal(signal.SIGTERM, _raise_terminated)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write how the run ended; an exception that ended it is passed on.

        Raises:
            OSError: If the end could not be written, and no other exception is under way.
        """
        journal, writer = self._journal, self._writer
        if journal is None or writer is None or os.getpid() != self._pid:
            return  # a forked child that leaves the block does not end the run
        quiet = threading.current_thread() is threading.main_thread()
        before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)} if quiet else {}
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # a second Ctrl-C must not interrupt this
        try:
            writer.iteration = None
            ended_by = None if error is None or _left_by_choice(error) else error
            journal.append(writer.end(self._status(ended_by), ended_by, self._peak_gpu_memory_bytes))
            journal.close()
        except OSError as trouble:
            if error is None:
                raise
            error.add_note(f"and the end could not be written into the ledger: {trouble}")
        finally:
            self._journal = self._writer = None
            for each, handler in before.items():
                if handler is not None:  # None: not set from Python, and cannot be restored
                    own = self._handles_sigterm and handler is _raise_terminated
                    signal.signal(each, signal.SIG_DFL if own else handler)

    def phase(self, phase: Phase | str) -> AbstractContextManager[None]:
        """Count the time inside a ``with`` block for a phase. In nested blocks, the inner phase gets the time.

        Args:
            phase: One of :class:`~ledger_lab.ledger.meters.Phase`, or its name.

        Raises:
            UserError: If there is no such phase.
        """
        self._begin()
        return self._clock.window(_phase(phase))

    def instrument(self, owner: object, method: str, phase: Phase | str) -> None:
        """Count the time of one object's method for a phase from now on, where a ``with`` block is not possible.

        Args:
            owner: The object.
            method: Name of the method, which is replaced on this object.
            phase: As for :meth:`phase`.

        Raises:
            UserError: If there is no such phase.
            AttributeError: If there is no such method.
        """
        self._begin()
        self._clock.instrument(owner, method, _phase(phase))

    def iteration(self, iteration: int, *, env_steps: int, figures: Mapping[str, float] | None = None) -> None:
        """Record the end of an iteration, and its time per phase. This is also the run's heartbeat.

        Args:
            iteration: Iterations completed, from 1.
            env_steps: Environment steps of training so far.
            figures: Figures of the training, by the names of :data:`ledger_lab.ledger.FIGURES`.

        Raises:
            UserError: If a figure has another name, or a number is of another kind. Nothing is recorded then.
        """
        counts = {name: _count(name, value) for name, value in (("iteration", iteration), ("env_steps", env_steps))}
        numbers: dict[str, float] = {}
        for name, value in (figures or {}).items():
            if name not in FIGURES:
                raise UserError(f"unknown figure {name!r}; {nearest(name, FIGURES)}")
            try:
                numbers[name] = float(value)
            except (TypeError, ValueError) as error:
                raise UserError(f"figure {name} {value!r}: must be a number") from error
        self._begin()
        writer = self._open()
        writer.iteration, writer.env_steps = counts["iteration"], counts["env_steps"]
        writer.beat(numbers)

    def checkpoint(self, path: str | Path) -> CheckpointSaved:
        """Record that a policy is on disk.

        Args:
            path: Its file, inside :attr:`directory`.

        Returns:
            The row, to pass to :meth:`screen` and :meth:`confirm`.

        Raises:
            UserError: If the file doesn't exist, lies outside the directory, or held another policy before.
        """
        writer = self._open()
        with self._clock.window(Phase.CHECKPOINT):
            saved = writer.checkpoint(path, writer.iteration or 0, writer.env_steps)
        self._saved.add((saved.path, saved.sha256))
        return saved

    def judge(
        self,
        saved: CheckpointSaved,
        take: Callable[[Sequence[int]], Outcomes],
        episodes: int | None = None,
        exactness: Literal["bitwise", "statistical"] = "statistical",
    ) -> list[PanelResult]:
        """Screen a checkpoint, and confirm it on fresh seeds if it passes. A near miss is extended.

        All of it counts for the phase ``evaluate``. Afterwards, :attr:`target_reached` says whether to go on training.

        Args:
            saved: The checkpoint.
            take: Plays one episode for each of some seeds, and returns their outcomes.
            episodes: Episodes of each panel of the confirmation; as many as the run's panel has by default.
            exactness: As for :meth:`screen`.

        Returns:
            The rows: the screening, then each panel of the confirmation.

        Raises:
            UserError: If the outcomes are not those of the seeds.
        """
        panel = self._panel
        with self.phase(Phase.EVALUATE):
            results = [self.screen(saved, panel, take(panel.seeds), exactness)]
            confirms = results[0].passes
            while confirms:
                fresh = self.fresh(saved, len(panel.seeds) if episodes is None else episodes)
                results.append(self.confirm(saved, fresh, take(fresh.seeds), exactness))
                confirms = self.extends(saved)
        return results

    def screen(
        self,
        saved: CheckpointSaved,
        panel: RecordedPanel,
        outcomes: Outcomes,
        exactness: Literal["bitwise", "statistical"] = "statistical",
    ) -> PanelResult:
        """Record a checkpoint's score on the run's panel. A checkpoint that passes must still be confirmed.

        Args:
            saved: The checkpoint.
            panel: The run's panel.
            outcomes: Outcomes of its episodes.
            exactness: Whether a repetition with the same policy gives the same episodes bit for bit.

        Returns:
            The row; its ``passes`` says whether the checkpoint is worth a confirmation.

        Raises:
            UserError: If the run declared another panel, or the outcomes are not those of its seeds.
        """
        if panel.id != self._declared.panel_id:
            raise UserError(f"panel {panel.name}: the run declared another panel: score on that panel")
        return self._score(saved, panel, outcomes, self._verdict.screening(outcomes.episodes), exactness)

    def extends(self, saved: CheckpointSaved) -> bool:
        """Tell whether a confirmation of this checkpoint may be extended: whether it ended with a near miss.

        Args:
            saved: The checkpoint.
        """
        return self._verdict.extends(saved.sha256)

    def fresh(self, saved: CheckpointSaved, episodes: int) -> RecordedPanel:
        """Draw the next panel of a checkpoint's confirmation: the run's panel with unseen seeds.

        Before the next panel is drawn, the outcomes of this one must be recorded. So no panel, part of a panel or
        checkpoint can be selected by its outcomes. The error budget covers choices that are made before the outcomes
        are known, such as the number of episodes. It does not cover later choices.

        Args:
            saved: The checkpoint that will be scored.
            episodes: Number of episodes, at least 1.

        Returns:
            The panel. If its outcomes are not recorded yet, the same request returns the same panel again, for example
            after an error while it was scored.

        Raises:
            UserError: If there are no episodes, or the outcomes of another panel are not recorded yet.
        """
        if episodes < 1:
            raise UserError(f"{episodes} episodes: a confirmation needs at least 1")
        if self._drawn is None:
            panel = self._panel.with_fresh_seeds(episodes, self._seen)
            self._seen.update(panel.seeds)
            self._drawn = (saved.sha256, panel)
        sha256, panel = self._drawn
        if (sha256, len(panel.seeds)) != (saved.sha256, episodes):
            raise UserError(
                f"panel {panel.name}: {len(panel.seeds)} fresh seeds were drawn for checkpoint {sha256[:12]}…, and "
                "their outcomes are not recorded: score that checkpoint on them, and record all of them with confirm"
            )
        return panel

    def confirm(
        self,
        saved: CheckpointSaved,
        panel: RecordedPanel,
        outcomes: Outcomes,
        exactness: Literal["bitwise", "statistical"] = "statistical",
    ) -> PanelResult:
        """Record a checkpoint's score on fresh seeds. Only a confirmation can prove that the target is reached.

        If the last confirmation was a near miss of the same checkpoint (:meth:`extends`), this score extends it: the
        successes of its earlier panels count. Otherwise a new confirmation begins. The number of successes needed
        depends on the results of all confirmations, so that the probability of a wrong claim stays within the run's
        error budget, however many panels there are and however large they are.

        Args:
            saved: A checkpoint that was screened.
            panel: The panel that :meth:`fresh` drew for it.
            outcomes: Outcomes of its episodes.
            exactness: As for :meth:`screen`.

        Returns:
            The row; its ``passes`` says whether the target is reached.

        Raises:
            UserError: If the panel was not drawn for this checkpoint, is recorded already, or the outcomes are those of
                other seeds.
            OSError: If the row cannot be written yet. The confirmation counts all the same, and the next row that is
                written writes this one first.
        """
        if self._drawn != (saved.sha256, panel):
            raise UserError(
                f"panel {panel.name}: a confirmation needs a panel that the run drew for this checkpoint, whole and "
                "once: take it from RecordedRun.fresh"
            )
        require_outcomes(panel.name, panel.seeds, outcomes)
        what = self._verdict.confirmation(saved.sha256, outcomes.episodes)
        journal = self._journal
        accepted = 0 if journal is None else journal.accepted
        try:
            return self._score(saved, panel, outcomes, what, exactness)
        finally:  # also if the disk is full, or a signal comes: the journal writes what it accepted as soon as it can
            if journal is not None and journal.accepted > accepted:
                place = (what.confirmation, what.extension)
                self._verdict.count(place, saved.sha256, outcomes.successes, outcomes.episodes)
                self._drawn = None
                self.target_reached = self.target_reached or self._verdict.proven

    def _score(
        self,
        saved: CheckpointSaved,
        panel: RecordedPanel,
        outcomes: Outcomes,
        what: NextPanel,
        exactness: Literal["bitwise", "statistical"],
    ) -> PanelResult:
        """Write the row of a score.

        Raises:
            UserError: If the run did not record the checkpoint, or the outcomes are those of other seeds.
        """
        if (saved.path, saved.sha256) not in self._saved:
            raise UserError(
                f"checkpoint {saved.path}: run {self.run_id} did not record it: score a checkpoint that its own "
                "checkpoint() returned"
            )
        return self._open().result(
            saved,
            outcomes,
            what,
            panel=panel.name,
            panel_id=panel.id,
            seeds=panel.seeds,
            exactness=exactness,
        )

    def _begin(self) -> None:
        """End the start-up at the first sign of training."""
        if self._clock.base is Phase.STARTUP:
            self._clock.set_base(Phase.UNATTRIBUTED)

    def _open(self) -> RunWriter:
        """Return the writer.

        Raises:
            RuntimeError: Outside the ``with`` block.
        """
        if self._writer is None:
            raise RuntimeError("a run is recorded inside its 'with' block")
        return self._writer

    def _status(self, error: BaseException | None) -> Status:
        """Return the status of a run that ended by an exception, or normally."""
        if error is None:
            return Status.TARGET_REACHED if self.target_reached else Status.COMPLETED
        return endings.status_of(error)


def _count(name: str, value: int) -> int:
    """Return a whole number of things as a plain one.

    Raises:
        UserError: If the value is not a whole number, or if it is negative.
    """
    try:
        count = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = -1
    if count < 0:
        raise UserError(f"run.iteration: {name} {value!r}: must be a whole number of at least 0")
    return count


def _phase(phase: Phase | str) -> Phase:
    """Return a phase by its name.

    Raises:
        UserError: If there is no such phase.
    """
    if phase not in set(Phase):
        raise UserError(f"unknown phase {str(phase)!r}; {nearest(str(phase), map(str, Phase))}")
    return Phase(phase)


def _left_by_choice(error: BaseException) -> bool:
    """Tell whether an exception is ``sys.exit()`` with status 0."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


def _raise_terminated(signum: int, frame: FrameType | None) -> None:
    """Turn SIGTERM into an exception, so that the run's end is written on the way out."""
    raise Terminated(128 + signum)
