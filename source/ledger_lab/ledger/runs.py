"""Runs, their attempts and cohorts, as a reader of the ledger sees them."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ledger_lab.ledger.content import JournalContent
from ledger_lab.ledger.declarations import RunDeclared
from ledger_lab.ledger.listing import COMPRESSED, LedgerDamageError
from ledger_lab.ledger.liveness import is_alive
from ledger_lab.ledger.results import PanelResult
from ledger_lab.ledger.row import Row
from ledger_lab.ledger.rows import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    PhaseWindow,
    ShutdownEnded,
    StateRestored,
    Status,
    SupervisionStarted,
)
from ledger_lab.ledger.sums import WindowSums

_SILENCE_LIMIT, _UNSUPERVISED_LIMIT = timedelta(minutes=2), timedelta(minutes=15)

ENDED_FROM_OUTSIDE = {Status.INTERRUPTED, Status.PREEMPTED, Status.KILLED, Status.LOST}
"""Statuses of trainings that something outside of the training interrupted. Such a training is resumed from its saved
state, or repeated; its cost stays in the ledger."""

_R = TypeVar("_R", bound=Row)


@dataclass(frozen=True)
class Attempt:
    """One group of processes within a run, as recorded in its journals."""

    number: int
    """Number of the attempt within its run, from 1."""
    ranks: tuple[JournalContent, ...]
    """Journals of its processes, by rank."""
    supervisions: tuple[JournalContent, ...]
    """Journals of their supervisors, by rank; empty if there is no supervisor."""
    telemetries: tuple[JournalContent, ...] = ()
    """Journals of their telemetry, by rank. Empty if they were not kept, and in ledgers of earlier versions, whose
    supervisors wrote telemetry into their own journals."""

    @property
    def supervision(self) -> JournalContent | None:
        """Journal of the first process's supervisor; ``None`` if there is no supervisor."""
        return next(iter(self.supervisions), None)

    @property
    def journals(self) -> tuple[JournalContent, ...]:
        """All its journals."""
        return (*self.ranks, *self.supervisions, *self.telemetries)

    def of(self, kind: type[_R]) -> list[_R]:
        """Return the rows of one kind: those of its processes by rank, then those of their supervisors by rank."""
        return [row for journal in self.journals for row in journal.of(kind)]

    @cached_property
    def ended(self) -> AttemptEnded | None:
        """How it ended, according to its first process; ``None`` if no end was written."""
        return next(iter(self.of(AttemptEnded)), None)

    @cached_property
    def shutdown(self) -> ShutdownEnded | None:
        """How its processes exited after the end; ``None`` if no row says so."""
        return next(iter(self.of(ShutdownEnded)), None)

    @property
    def first_start(self) -> AttemptStarted | None:
        """Row of the start of its first process; ``None`` if it is missing."""
        return next(iter(self.ranks[0].of(AttemptStarted)), None) if self.ranks else None

    @property
    def silence_limit(self) -> timedelta:
        """How long it may be silent on another host before it counts as lost."""
        return silence_limit(supervised=bool(self.supervisions))

    @property
    def status(self) -> Status:
        """How it ended. If no end was written: ``running`` while there are heartbeats, else ``lost``.

        If it has written more since its journals were read, it was running then: the end may be among the new rows.
        """
        if self.ended is not None:
            return self.ended.status
        lives = self.shows_life() or any(journal.has_grown() for journal in self.journals)
        return Status.RUNNING if lives else Status.LOST

    def shows_life(self, *, here: bool = False) -> bool:
        """Tell whether one of its processes still runs. If this host cannot know, tell whether the last row is recent.

        Args:
            here: Whether to look only for processes on this host.
        """
        alive = self._alive()
        if any(alive) or here or self.is_known_here:
            return any(alive)
        return datetime.now(UTC) - max(journal.last_time for journal in self.journals) < self.silence_limit

    @property
    def is_known_here(self) -> bool:
        """Whether this host can tell of each of its processes whether it runs."""
        alive = self._alive()
        return bool(alive) and None not in alive

    def _alive(self) -> list[bool | None]:
        """Tell of each of its processes whether it runs; ``None`` if this host cannot know."""
        starts: list[AttemptStarted | SupervisionStarted] = [*self.of(AttemptStarted), *self.of(SupervisionStarted)]
        own = socket.gethostname()
        return [is_alive(start.pid, start.process) if start.host == own else None for start in starts]

    @property
    def windows(self) -> list[PhaseWindow]:
        """Phase windows of its first process, in order. Each call may read the journal; :attr:`sums` does not."""
        return self.ranks[0].of(PhaseWindow) if self.ranks else []

    @property
    def sums(self) -> WindowSums:
        """Sums of the phase windows of its first process."""
        return self.ranks[0].windows if self.ranks else WindowSums()

    @property
    def wall_ns(self) -> int:
        """Its duration until its processes had ended, or to its last heartbeat [ns]."""
        return max(journal.wall_ns for journal in self.journals)


@dataclass(frozen=True)
class Evaluation:
    """A stand-alone evaluation, as recorded in the directory of a run whose checkpoints it scores."""

    journals: tuple[JournalContent, ...]
    """Its journals in this directory: those of the evaluating process, of its supervisor, and of its telemetry."""
    share: float = 1.0
    """Share of the scored checkpoints that are this run's, in (0, 1]; 1 if the number of all checkpoints is unknown."""

    def of(self, kind: type[_R]) -> list[_R]:
        """Return the rows of one kind."""
        return [row for journal in self.journals for row in journal.of(kind)]

    @property
    def wall_ns(self) -> int:
        """Its duration until its process had ended, or to its last heartbeat [ns]; 0 if no row tells it."""
        return max(journal.wall_ns for journal in self.journals)


def silence_limit(*, supervised: bool) -> timedelta:
    """Return how long an attempt on another host may be silent before it counts as lost.

    A supervisor writes every second. Without one, there may be no row for minutes while kernels are compiled.

    Args:
        supervised: Whether it has a supervisor.
    """
    return _SILENCE_LIMIT if supervised else _UNSUPERVISED_LIMIT


_READ_AGAIN = ("declared", "attempts", "evaluations", "journals")
"""Fields that a reference to a run lacks."""


@dataclass(frozen=True)
class Run:
    """One declared training effort, with all its journals."""

    directory: Path
    declared: RunDeclared
    declared_at: datetime
    attempts: tuple[Attempt, ...]
    evaluations: tuple[Evaluation, ...]
    """Stand-alone evaluations, by their first scores; evaluations without scores, by their start."""
    journals: tuple[JournalContent, ...]
    """All journals of its directory."""

    @cached_property
    def run_id(self) -> str:
        """Its id."""
        return self.declared.run_id

    @cached_property
    def cohort(self) -> str | None:
        """The cohort that it was declared in, if there is one."""
        return self.declared.cohort

    @cached_property
    def task(self) -> str:
        """Its task."""
        return self.declared.task

    @property
    def rows(self) -> int:
        """Number of rows of all its attempts."""
        return sum(journal.count for attempt in self.attempts for journal in attempt.journals)

    def reference(self) -> Self:
        """Return the run without its rows. They are read again when somebody asks for them.

        A report of many thousand runs shows some of them. To read these again takes less time than to keep all, and to
        send them between processes.
        """
        return self.reference_to(self.directory, self.declared, self.declared_at)

    @classmethod
    def reference_to(cls, directory: Path, declared: RunDeclared, declared_at: datetime) -> Self:
        """Return such a reference to the run that a directory declares."""
        reference = object.__new__(cls)
        named = {"run_id": declared.run_id, "cohort": declared.cohort, "task": declared.task}
        vars(reference).update({"directory": directory, "declared_at": declared_at, **named})
        return reference

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any field
            """Read the fields that a reference lacks."""
            if name not in _READ_AGAIN:
                raise AttributeError(name)
            from ledger_lab.ledger.reader import read_run  # which imports this module

            read = read_run(self.directory)
            vars(self).update({each: getattr(read, each) for each in _READ_AGAIN})
            return vars(self)[name]

    @property
    def checkpoints(self) -> list[CheckpointSaved]:
        """All checkpoints, by iteration. If an iteration was trained again, only the later checkpoint counts."""
        kept = {row.path: row for attempt in self.attempts for row in attempt.of(CheckpointSaved)}
        return sorted(kept.values(), key=attrgetter("iteration"))

    @property
    def windows(self) -> list[tuple[Attempt, PhaseWindow]]:
        """Phase windows of all attempts whose work was not lost, in order. Each call may read the journals."""
        return [
            (attempt, window)
            for attempt in self.attempts
            for window in attempt.windows
            if not self.is_lost(attempt, window)
        ]

    def is_lost(self, attempt: Attempt, window: PhaseWindow) -> bool:
        """Tell whether the work of a window was lost, because a later attempt did it again.

        If an attempt resumes from a state, all work after that state is lost: the rest of the attempt that saved it,
        and all work of the attempts in between.
        """
        kept_ns, iteration = self._kept.get(attempt.number, (None, 0))
        if kept_ns is None or window.wall_ns <= kept_ns:
            return False
        return window.iteration is None or window.iteration > iteration

    def was_resumed(self, attempt: Attempt) -> bool:
        """Tell whether a later attempt resumed from this attempt, or from an earlier attempt."""
        return attempt.number in self._kept

    @cached_property
    def _kept(self) -> dict[int, tuple[int, int]]:
        """Age and iteration up to which the work of an attempt was kept, by attempt; others keep all of it."""
        kept: dict[int, tuple[int, int]] = {}
        for attempt in self.attempts:
            for row in attempt.of(StateRestored):
                kept |= dict.fromkeys(range(row.attempt + 1, attempt.number), (0, 0))
                kept[row.attempt] = (row.saved_wall_ns, row.iteration)
        return kept

    @property
    def proven(self) -> bool:
        """Whether a policy is proven and the run was to end at the target. Such a run is finished."""
        return self.declared.stop_at_target and any(row.proves for _, row in self.judged)

    def has_finished(self, unfinished: Collection[Status] = ENDED_FROM_OUTSIDE) -> bool:
        """Tell whether it has begun, and is proven, has used up its limit, or has a status that is not unfinished."""
        if not self.attempts:
            return False
        status, left_s = self.attempts[-1].status, self.limit_left_s
        used_up = left_s is not None and left_s <= 0
        return status not in unfinished or self.proven or (status in ENDED_FROM_OUTSIDE and used_up)

    @property
    def limit_left_s(self) -> float | None:
        """What its attempts have left of ``--limit_s``, at most 0 if it is used up [s]; ``None`` without a limit."""
        limit_s: object = (self.declared.request or {}).get("limit_s")
        if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or not math.isfinite(limit_s):
            return None
        return limit_s - sum(attempt.wall_ns for attempt in self.attempts) / 1e9

    @property
    def judged(self) -> list[tuple[Attempt | None, PanelResult]]:
        """All panel results with their attempts. Each call reads them again, because they are long.

        Results of attempts come first, in order; those of stand-alone evaluations follow, with ``None``. Only the order
        among evaluations depends on the wall clock.
        """
        of_attempts = [(attempt, row) for attempt in self.attempts for row in attempt.of(PanelResult)]
        return [*of_attempts, *((None, row) for each in self.evaluations for row in each.of(PanelResult))]

    @property
    def results(self) -> tuple[PanelResult, ...]:
        """All panel results, in the order of :attr:`judged`. Each call reads them again."""
        return tuple(row for _, row in self.judged)


@dataclass(frozen=True)
class Cohort:
    """Runs that belong together. Their number was declared before the first run started."""

    name: str
    size: int
    """Number of declared runs."""
    run_ids: tuple[str, ...]
    """Existing runs, oldest first."""


@dataclass(frozen=True)
class Ledger:
    """All journals under a root directory."""

    root: Path
    runs: tuple[Run, ...]
    """Runs, oldest first."""
    cohorts: tuple[Cohort, ...] = field(default=())
    """Cohorts that were declared with a size, by name."""
    loose: tuple[JournalContent, ...] = field(default=())
    """Journals that belong to no run."""
    damage: tuple[LedgerDamageError, ...] = field(default=())
    """Damage of the ledger. Runs with damage in their directories are left out."""
    found: int = 0
    """Number of journals that were found, damaged ones included."""

    @property
    def journals(self) -> list[JournalContent]:
        """All sound journals, by their paths."""
        journals = (*(journal for run in self.runs for journal in run.journals), *self.loose)
        return sorted(journals, key=attrgetter("path"))


def attempt_number(journal: Path) -> int | None:
    """Return the number of the attempt that a journal belongs to, by its name; ``None`` for all other files."""
    found = re.match(r"journal-(\d{1,9})-", journal.name)
    return None if found is None else int(found[1])


def telemetry_path(supervision: Path) -> Path:
    """Return the path of the journal that a supervisor writes telemetry into.

    Args:
        supervision: Path of the supervisor's own journal.
    """
    return supervision.with_name(supervision.name.replace("-supervisor", "-telemetry"))


def evaluation_name(journal: Path) -> str:
    """Return the name that all journals of one stand-alone evaluation have in common.

    Args:
        journal: Path of a journal of the evaluating process, of its supervisor, or of its telemetry.
    """
    stem = journal.name.removesuffix(COMPRESSED).removesuffix(".jsonl")
    return next((stem.removesuffix(end) for end in ("-supervisor", "-telemetry", "-0") if stem.endswith(end)), stem)


def worker_path(supervision: Path) -> Path:
    """Return the path of the journal that the supervised process writes.

    Args:
        supervision: Path of the supervisor's own journal; its name ends with the rank, except for rank 0.
    """
    before, _, rank = supervision.stem.partition("-supervisor")
    return supervision.with_name(f"{before}{rank or '-0'}{supervision.suffix}")


def without_telemetry(journals: Sequence[JournalContent]) -> list[JournalContent]:
    """Return the supervisors' journals whose telemetry was not kept.

    Args:
        journals: All journals that belong together, of any kind.
    """
    kept = {journal.path.with_name(journal.path.name.removesuffix(COMPRESSED)) for journal in journals}
    return [
        journal
        for journal in journals
        if journal.of(SupervisionStarted)
        and not journal.telemetry.wall_ns  # supervisors of earlier versions wrote telemetry into their own journals
        and telemetry_path(journal.path.with_name(journal.path.name.removesuffix(COMPRESSED))) not in kept
    ]
