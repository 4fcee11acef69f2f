"""The reader: journals to rows, rows to runs."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from ledger_lab.ledger.encoding import GENESIS, VERSION, line_hash
from ledger_lab.ledger.rows import (
    KINDS,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    PanelResult,
    PhaseWindow,
    Row,
    RunDeclared,
    Status,
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
    """One process's life within a run, as far as its journal tells."""

    journal: JournalContent
    started: AttemptStarted
    ended: AttemptEnded | None

    @property
    def status(self) -> Status:
        """How it ended; where it never said, ``running`` while it shows signs of life, else ``lost``."""
        if self.ended is not None:
            return self.ended.status
        return Status.RUNNING if self._shows_life() else Status.LOST

    def _shows_life(self) -> bool:
        """Look for the process on this host; of another host's, for a recent row."""
        if self.started.host == socket.gethostname():
            return Path(f"/proc/{self.started.pid}").exists()
        return datetime.now(UTC) - self.journal.times[-1] < HEARTBEAT_LIMIT

    @property
    def windows(self) -> list[PhaseWindow]:
        """Its phase windows, in order."""
        return self.journal.of(PhaseWindow)

    @property
    def wall_ns(self) -> int:
        """Its life: to its end, or to its last heartbeat."""
        marks = [self.started.wall_ns, *(row.wall_ns for row in self.windows)]
        marks += [row.wall_ns for row in self.journal.of(CheckpointSaved)]
        return max(marks if self.ended is None else [*marks, self.ended.wall_ns])


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
        return [row for attempt in self.attempts for row in attempt.journal.of(CheckpointSaved)]


@dataclass(frozen=True)
class Ledger:
    """All journals under a root directory."""

    root: Path
    runs: tuple[Run, ...]
    """Runs, oldest first."""
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
        if record["hash"] != line_hash(record):
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
        record = json.loads(line, parse_constant=_refuse_constant)
    except ValueError as error:
        raise LedgerDamageError(path, number, "the line is not JSON") from error
    keys = {"v", "seq", "time", "kind", "data", "prev", "hash"}
    if not isinstance(record, dict) or set(record) != keys:
        raise LedgerDamageError(path, number, "the line is not a row")
    return record


def _refuse_constant(name: str) -> None:
    """Refuse NaN and infinity, which JSON doesn't know and no writer writes."""
    raise ValueError(name)


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
    torn = [journal for journals in by_directory.values() for journal in journals if journal.torn_bytes]
    return Ledger(root, tuple(sorted(runs, key=lambda run: run.declared_at)), tuple(torn))


def _assemble(directory: Path, journals: list[JournalContent]) -> Run | None:
    """Make a run of the journals of one directory; ``None`` where none was declared."""
    attempts: list[Attempt] = []
    declared: tuple[RunDeclared, datetime] | None = None
    for journal in journals:
        for row, time in zip(journal.rows, journal.times, strict=True):
            if isinstance(row, RunDeclared):
                if declared is not None:
                    raise LedgerDamageError(journal.path, 1, f"run {declared[0].run_id} is declared here already")
                declared = (row, time)
        started = journal.one(AttemptStarted)
        if started is not None:
            attempts.append(Attempt(journal, started, journal.one(AttemptEnded)))
    if declared is None:
        return None
    timed = [
        (time, row)
        for journal in journals
        for row, time in zip(journal.rows, journal.times, strict=True)
        if isinstance(row, PanelResult)
    ]
    results = tuple(row for _, row in sorted(timed, key=lambda pair: pair[0]))
    return Run(directory, *declared, tuple(attempts), results)
