"""The reader: builds runs from journals."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TypeVar

from ledger_lab.ledger.content import JournalContent, read_journal
from ledger_lab.ledger.digest import COMPRESSED, Digest, LedgerDamageError
from ledger_lab.ledger.digests import digest_journals
from ledger_lab.ledger.results import PanelResult
from ledger_lab.ledger.rows import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    CohortDeclared,
    PhaseWindow,
    Row,
    RunDeclared,
    ShutdownEnded,
    Status,
    SupervisionStarted,
    TelemetryStarted,
)
from ledger_lab.ledger.states import StateRestored
from ledger_lab.ledger.tally import WindowSums

__all__ = [
    "Attempt",
    "JournalContent",
    "Ledger",
    "LedgerDamageError",
    "Run",
    "assemble_ledger",
    "find_journals",
    "read_journal",
    "read_ledger",
    "silence_limit",
]

_SILENCE_LIMIT, _UNSUPERVISED_LIMIT = timedelta(minutes=2), timedelta(minutes=15)

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
        """The journal of the first process."""
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
        """How its processes exited after that; ``None`` if this was not written."""
        return next(iter(self.of(ShutdownEnded)), None)

    @property
    def silence_limit(self) -> timedelta:
        """How long it may be silent on another host before it counts as lost [s]."""
        return silence_limit(supervised=bool(self.supervisions))

    @property
    def status(self) -> Status:
        """How it ended. If no end was written: ``running`` while there are heartbeats, else ``lost``."""
        if self.ended is not None:
            return self.ended.status
        return Status.RUNNING if self.shows_life() else Status.LOST

    def shows_life(self, *, here: bool = False) -> bool:
        """Tell whether it is alive: one of its processes runs on this host, or a row from another host is recent.

        Args:
            here: Look only on this host.
        """
        starts: list[tuple[AttemptStarted | SupervisionStarted, datetime]] = []
        for journal in self.journals:
            starts += journal.timed(AttemptStarted)
            starts += journal.timed(SupervisionStarted)
        if any(start.host == socket.gethostname() for start, _ in starts):
            return any(is_alive(start.pid, time) for start, time in starts if start.host == socket.gethostname())
        silent = datetime.now(UTC) - max(journal.last_time for journal in self.journals)
        return not here and silent < self.silence_limit

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
        return max(journal.digest.wall_ns for journal in self.journals)


def silence_limit(*, supervised: bool) -> timedelta:
    """Return how long an attempt on another host may be silent before it counts as lost [s].

    A supervisor writes every second. Without one, there may be no row for minutes while kernels are compiled.

    Args:
        supervised: Whether it has a supervisor.
    """
    return _SILENCE_LIMIT if supervised else _UNSUPERVISED_LIMIT


def is_alive(pid: int, seen: datetime) -> bool:
    """Tell whether a process that ran at a known time still runs on this host."""
    import psutil  # slow to import

    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= seen.timestamp() + 1.0
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True)
class Run:
    """One declared training effort, with all its journals."""

    directory: Path
    declared: RunDeclared
    declared_at: datetime
    attempts: tuple[Attempt, ...]
    evaluations: tuple[JournalContent, ...] = ()
    """Journals of stand-alone evaluations, by their start."""

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
        """Tell whether a later attempt did the work of a window again.

        This is the work of an attempt after the state that a later attempt resumed from, and all work of the attempts
        in between.
        """
        kept_ns, iteration = self._kept.get(attempt.number, (None, 0))
        if kept_ns is None or window.wall_ns <= kept_ns:
            return False
        return window.iteration is None or window.iteration > iteration

    def led_on(self, attempt: Attempt) -> bool:
        """Tell whether a later attempt resumed from this attempt, or from an earlier one."""
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
        """Whether the run is finished: a policy is confirmed, and the training was to stop at the target."""
        return self.declared.stop_at_target and any(row.confirms for _, row in self.judged)

    @property
    def judged(self) -> list[tuple[Attempt | None, PanelResult]]:
        """All panel results with their attempts. Each call reads them again, because they are long.

        Results of attempts come first, in order; those of stand-alone evaluations follow, with ``None``. Only the order
        among evaluations depends on the wall clock.
        """
        of_attempts = [(attempt, row) for attempt in self.attempts for row in attempt.of(PanelResult)]
        return [*of_attempts, *((None, row) for journal in self.evaluations for row in journal.of(PanelResult))]

    @property
    def results(self) -> tuple[PanelResult, ...]:
        """All panel results, in the order of :attr:`judged`. Each call reads them again."""
        return tuple(row for _, row in self.judged)


@dataclass(frozen=True)
class Cohort:
    """Runs that belong together; their number was declared before the first one."""

    name: str
    size: int
    """Number of declared runs."""
    run_ids: tuple[str, ...]
    """Existing runs, oldest first."""

    @property
    def missing(self) -> int:
        """Number of declared runs that do not exist."""
        return max(0, self.size - len(self.run_ids))


@dataclass(frozen=True)
class Ledger:
    """All journals under a root directory."""

    root: Path
    runs: tuple[Run, ...]
    """Runs, oldest first."""
    cohorts: tuple[Cohort, ...] = field(default=())
    """Cohorts that were declared with a size, by name."""
    torn: tuple[JournalContent, ...] = field(default=())
    """Journals with an unfinished last line."""
    journals: tuple[JournalContent, ...] = field(default=(), repr=False)
    """All journals, including those that belong to no run."""


def find_journals(root: Path) -> list[Path]:
    """Return every journal under a directory, compressed or not, in a stable order.

    Other processes may create, change and delete files at the same time.

    Args:
        root: The directory.
    """
    return sorted(
        Path(directory, name)
        for directory, _, names in os.walk(root)
        for name in names
        if name.startswith("journal-") and name.removesuffix(COMPRESSED).endswith(".jsonl")
    )


def read_ledger(root: Path, *, on_progress: Callable[[int, int], None] | None = None, use_cache: bool = True) -> Ledger:
    """Read every run under a directory.

    Every line of every journal is verified, unless it was verified before and the journal has not changed since
    (:mod:`ledger_lab.ledger.cache`). Other processes may write to the ledger at the same time.

    Args:
        root: The directory, by default ``logs``.
        on_progress: Called with the bytes of journals that were read, and the bytes to read in all.
        use_cache: Whether to use the cache of earlier verifications.

    Returns:
        The ledger; empty if there is no journal.

    Raises:
        LedgerDamageError: If a journal is damaged beyond a torn last line.
        UserError: If a journal can't be read.
    """
    return assemble_ledger(root, digest_journals(find_journals(root), root if use_cache else None, on_progress))


def assemble_ledger(root: Path, digests: Mapping[Path, Digest | LedgerDamageError]) -> Ledger:
    """Build runs and cohorts from journals.

    Args:
        root: The directory that contains them.
        digests: Digest or damage of each journal.

    Raises:
        LedgerDamageError: If a journal is damaged, or two of them contradict each other.
        UserError: If a journal can no longer be read.
    """
    by_directory: dict[Path, list[JournalContent]] = {}
    for path, digest in digests.items():
        if isinstance(digest, LedgerDamageError):
            raise digest
        by_directory.setdefault(path.parent, []).append(JournalContent.stored(path, digest))
    runs = [run for directory, journals in by_directory.items() if (run := _assemble(directory, journals))]
    directories: dict[str, Path] = {}
    for run in runs:
        other = directories.setdefault(run.declared.run_id, run.directory)
        if other != run.directory:
            raise LedgerDamageError(run.directory, 1, f"run {run.declared.run_id} lies in {other}, too")
    runs.sort(key=lambda run: (run.declared_at, run.declared.run_id))
    journals = tuple(journal for found in by_directory.values() for journal in found)
    torn = tuple(journal for journal in journals if journal.torn_bytes)
    return Ledger(root, tuple(runs), _cohorts(journals, runs), torn, journals)


def _cohorts(journals: Sequence[JournalContent], runs: list[Run]) -> tuple[Cohort, ...]:
    """Return the declared cohorts with their runs."""
    declared: dict[str, tuple[int, Path]] = {}
    for journal in journals:
        for row in journal.of(CohortDeclared):
            size, path = declared.setdefault(row.cohort, (row.size, journal.path))
            if size != row.size:
                raise LedgerDamageError(
                    journal.path, 1, f"cohort {row.cohort} has {row.size} runs here, and {size} in {path}"
                )
    members: dict[str | None, list[str]] = {}
    for run in runs:
        members.setdefault(run.declared.cohort, []).append(run.declared.run_id)
    return tuple(Cohort(name, size, tuple(members.get(name, ()))) for name, (size, _) in sorted(declared.items()))


def _assemble(directory: Path, journals: list[JournalContent]) -> Run | None:
    """Build the run of one directory's journals; ``None`` if none declares a run."""
    declared: tuple[RunDeclared, datetime] | None = None
    ranks: dict[int, dict[int, JournalContent]] = {}
    supervisions: dict[int, dict[int, JournalContent]] = {}
    telemetries: dict[int, dict[int, JournalContent]] = {}
    evaluations: list[tuple[str, JournalContent]] = []
    for journal in sorted(journals, key=lambda journal: journal.path):
        for declaration in journal.timed(RunDeclared):
            if declared is not None:
                raise LedgerDamageError(journal.path, 1, f"run {declared[0].run_id} is declared here already")
            declared = declaration
        starts, supervised = journal.of(AttemptStarted), journal.of(SupervisionStarted)
        for start in starts:
            own = ranks.setdefault(start.attempt, {})
            _claim(own, start.rank, journal, f"rank {start.rank} of attempt {start.attempt}")
        for supervision in supervised:
            if supervision.attempt is not None:
                own = supervisions.setdefault(supervision.attempt, {})
                who = f"the supervisor of rank {supervision.rank} of attempt {supervision.attempt}"
                _claim(own, supervision.rank, journal, who)
        for telemetry in journal.of(TelemetryStarted):
            own = telemetries.setdefault(telemetry.attempt, {})
            _claim(
                own, telemetry.rank, journal, f"the telemetry of rank {telemetry.rank} of attempt {telemetry.attempt}"
            )
        results = journal.places(PanelResult)
        if results and not starts:
            evaluations.append((results[0].time, journal))
    if declared is None:
        return None
    attempts = tuple(
        Attempt(
            number,
            *(
                tuple(content for _, content in sorted(each.get(number, {}).items()))
                for each in (ranks, supervisions, telemetries)
            ),
        )
        for number in sorted({*ranks, *supervisions})
    )
    return Run(directory, *declared, attempts, tuple(each for _, each in sorted(evaluations, key=itemgetter(0))))


def _claim(owners: dict[int, JournalContent], place: int, journal: JournalContent, who: str) -> None:
    """Register a journal under its owner.

    Raises:
        LedgerDamageError: If another journal has the same owner.
    """
    other = owners.setdefault(place, journal)
    if other is not journal:
        raise LedgerDamageError(journal.path, 1, f"{other.path.name} claims to be {who}, too")
