"""The reader: journals to rows, rows to runs."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import orjson
import psutil

from ledger_lab.ledger.encoding import GENESIS, VERSION, hash_matches
from ledger_lab.ledger.kinds import KINDS
from ledger_lab.ledger.results import PanelResult
from ledger_lab.ledger.rows import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    CohortDeclared,
    Health,
    PhaseWindow,
    Row,
    RunDeclared,
    ShutdownEnded,
    Status,
    SupervisionStarted,
    Telemetry,
)

JOURNAL_PATTERN = "journal-*.jsonl"

HEARTBEAT_LIMIT = timedelta(minutes=15)
"""How long an attempt on another host may be silent before it counts as lost: compiling kernels takes minutes."""

_R = TypeVar("_R", bound=Row)


class LedgerDamageError(Exception):
    """A journal says something that its writer can't have written."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        """Locate the damage.

        Args:
            path: The journal.
            line: Line number, from 1.
            reason: What is wrong with the line.
        """
        super().__init__(f"{path}:{line}: {reason}")
        self.path, self.line, self.reason = path, line, reason


@dataclass(frozen=True)
class JournalContent:
    """All rows of one journal."""

    path: Path
    rows: tuple[Row, ...]
    times: tuple[datetime, ...]
    torn_bytes: int
    """Bytes of an unfinished last line, which a killed writer may leave behind."""

    def of(self, kind: type[_R]) -> list[_R]:
        """Return the rows of one kind, in order."""
        return [row for row in self.rows if type(row) is kind]

    def one(self, kind: type[_R]) -> _R | None:
        """Return the first row of one kind, or ``None``."""
        return next(iter(self.of(kind)), None)


@dataclass(frozen=True)
class Attempt:
    """One process group's life within a run, as far as its journals tell."""

    number: int
    """Place among the attempts of its run, from 1."""
    ranks: tuple[JournalContent, ...]
    """Journals of its processes, in the order of their ranks."""
    supervision: JournalContent | None
    """The supervisor's journal; ``None`` where nobody supervises."""

    @property
    def journals(self) -> tuple[JournalContent, ...]:
        """All its journals."""
        return self.ranks if self.supervision is None else (*self.ranks, self.supervision)

    def of(self, kind: type[_R]) -> list[_R]:
        """Return the rows of one kind: those of its processes by rank, then its supervisor's."""
        return [row for journal in self.journals for row in journal.of(kind)]

    @property
    def ended(self) -> AttemptEnded | None:
        """How it ended; ``None`` where nobody ever said."""
        return next(iter(self.of(AttemptEnded)), None)

    @property
    def shutdown(self) -> ShutdownEnded | None:
        """How its processes went away after that; ``None`` where nobody said."""
        return next(iter(self.of(ShutdownEnded)), None)

    @property
    def status(self) -> Status:
        """How it ended; where it never said, ``running`` while it shows signs of life, else ``lost``."""
        if self.ended is not None:
            return self.ended.status
        return Status.RUNNING if self._shows_life() else Status.LOST

    def _shows_life(self) -> bool:
        """Look for a process of it on this host; of another host's, for a recent row."""
        starts: list[tuple[AttemptStarted | SupervisionStarted, datetime]] = [
            (row, time)
            for journal in self.journals
            for row, time in zip(journal.rows, journal.times, strict=True)
            if isinstance(row, AttemptStarted | SupervisionStarted)
        ]
        if any(start.host == socket.gethostname() for start, _ in starts):
            return any(_is_alive(start.pid, time) for start, time in starts if start.host == socket.gethostname())
        return datetime.now(UTC) - max(journal.times[-1] for journal in self.journals) < HEARTBEAT_LIMIT

    @property
    def windows(self) -> list[PhaseWindow]:
        """Phase windows of its first process, in order."""
        return self.ranks[0].of(PhaseWindow) if self.ranks else []

    @property
    def wall_ns(self) -> int:
        """Its life: until its processes were gone, or to its last sign of life."""
        timed = (
            SupervisionStarted,
            AttemptStarted,
            PhaseWindow,
            Telemetry,
            Health,
            CheckpointSaved,
            AttemptEnded,
            ShutdownEnded,
        )
        return max(row.wall_ns for journal in self.journals for row in journal.rows if isinstance(row, timed))


def _is_alive(pid: int, seen: datetime) -> bool:
    """Tell whether the process that was seen at a time still runs on this host."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= seen.timestamp() + 1.0
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True)
class Run:
    """One declared training effort with everything that is known of it."""

    directory: Path
    declared: RunDeclared
    declared_at: datetime
    attempts: tuple[Attempt, ...]
    results: tuple[PanelResult, ...]
    """All panel results, in-training and stand-alone ones, in the order in which they were written."""

    @property
    def checkpoints(self) -> list[CheckpointSaved]:
        """All checkpoints, in order."""
        return [row for attempt in self.attempts for row in attempt.of(CheckpointSaved)]


@dataclass(frozen=True)
class Cohort:
    """Runs that were declared together, with their number, before the first of them."""

    name: str
    size: int
    """Runs that were declared."""
    run_ids: tuple[str, ...]
    """Runs that there are, oldest first."""

    @property
    def missing(self) -> int:
        """Declared runs that there are not."""
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


def read_journal(path: Path) -> JournalContent:
    """Read and verify one journal.

    Args:
        path: The journal.

    Returns:
        Its rows.

    Raises:
        LedgerDamageError: If a line is not what its writer wrote, or is missing.
    """
    *lines, tail = path.read_bytes().split(b"\n")
    rows: list[Row] = []
    times: list[datetime] = []
    previous = GENESIS
    for number, line in enumerate(lines, start=1):
        record = _decode(path, number, line)
        if record["v"] != VERSION:
            raise LedgerDamageError(path, number, f"format version {record['v']} is not {VERSION}")
        if not hash_matches(line):
            raise LedgerDamageError(path, number, "the row does not match its hash")
        if record["prev"] != previous or record["seq"] != number - 1:
            raise LedgerDamageError(path, number, "the row does not follow the one before it")
        previous = record["hash"]
        try:
            rows.append(KINDS[record["kind"]].from_data(record["data"]))
            times.append(datetime.fromisoformat(record["time"]))
        except (KeyError, TypeError, ValueError) as error:
            raise LedgerDamageError(path, number, f"not a valid {record['kind']!r} row: {error}") from error
    return JournalContent(path, tuple(rows), tuple(times), len(tail))


def _decode(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """Parse one line into a record with all its keys."""
    try:
        record = orjson.loads(line)
    except ValueError as error:
        raise LedgerDamageError(path, number, "the line is not JSON") from error
    keys = {"v", "seq", "time", "kind", "data", "prev", "hash"}
    if not isinstance(record, dict) or set(record) != keys:
        raise LedgerDamageError(path, number, "the line is not a row")
    return record


def find_journals(root: Path) -> list[Path]:
    """Return every journal under a directory, in a stable order."""
    return sorted(root.rglob(JOURNAL_PATTERN))


def read_ledger(root: Path) -> Ledger:
    """Read every run under a directory.

    Args:
        root: The directory, by default ``logs``.

    Returns:
        The ledger; empty where there is no journal.

    Raises:
        LedgerDamageError: If a journal is damaged beyond a torn last line.
    """
    by_directory: dict[Path, list[JournalContent]] = {}
    for path in find_journals(root):
        by_directory.setdefault(path.parent, []).append(read_journal(path))
    runs = [run for directory, journals in by_directory.items() if (run := _assemble(directory, journals))]
    directories: dict[str, Path] = {}
    for run in runs:
        other = directories.setdefault(run.declared.run_id, run.directory)
        if other != run.directory:
            raise LedgerDamageError(run.directory, 1, f"run {run.declared.run_id} lies in {other}, too")
    runs.sort(key=lambda run: (run.declared_at, run.declared.run_id))
    all_journals = [journal for journals in by_directory.values() for journal in journals]
    torn = [journal for journal in all_journals if journal.torn_bytes]
    return Ledger(root, tuple(runs), _cohorts(all_journals, runs), tuple(torn))


def _cohorts(journals: list[JournalContent], runs: list[Run]) -> tuple[Cohort, ...]:
    """Find the declared cohorts, and their runs."""
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
    """Make a run of the journals of one directory; ``None`` where none was declared."""
    declared: tuple[RunDeclared, datetime] | None = None
    ranks: dict[int, dict[int, JournalContent]] = {}
    supervisions: dict[int, JournalContent] = {}
    timed: list[tuple[datetime, PanelResult]] = []
    for journal in sorted(journals, key=lambda journal: journal.path):
        for row, time in zip(journal.rows, journal.times, strict=True):
            if isinstance(row, RunDeclared):
                if declared is not None:
                    raise LedgerDamageError(journal.path, 1, f"run {declared[0].run_id} is declared here already")
                declared = (row, time)
            elif isinstance(row, AttemptStarted):
                own = ranks.setdefault(row.attempt, {})
                _claim(own, row.rank, journal, f"rank {row.rank} of attempt {row.attempt}")
            elif isinstance(row, SupervisionStarted) and row.attempt is not None:
                _claim(supervisions, row.attempt, journal, f"the supervisor of attempt {row.attempt}")
            elif isinstance(row, PanelResult):
                timed.append((time, row))
    if declared is None:
        return None
    attempts = tuple(
        Attempt(
            number,
            tuple(content for _, content in sorted(ranks.get(number, {}).items())),
            supervisions.get(number),
        )
        for number in sorted({*ranks, *supervisions})
    )
    return Run(directory, *declared, attempts, tuple(row for _, row in sorted(timed, key=lambda pair: pair[0])))


def _claim(owners: dict[int, JournalContent], place: int, journal: JournalContent, who: str) -> None:
    """Note whose journal it is.

    Raises:
        LedgerDamageError: If another journal says that it is the same one's.
    """
    other = owners.setdefault(place, journal)
    if other is not journal:
        raise LedgerDamageError(journal.path, 1, f"{other.path.name} claims to be {who}, too")
