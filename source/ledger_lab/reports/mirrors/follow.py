"""Follows the journals of a run while the run writes them."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path

from ledger_lab.files import naming
from ledger_lab.ledger import AttemptEnded, Row, Status, read_ledger
from ledger_lab.ledger.compressed import open_journal
from ledger_lab.ledger.content import decode_line
from ledger_lab.ledger.encoding import GENESIS

_FOLLOWED = re.compile(r"(journal-(\d+)-(?:0|supervisor|telemetry)\.jsonl)(?:\.gz)?")
"""Journals that are followed: of each attempt, the first process's, its supervisor's, and its telemetry."""

_QUIET = timedelta(seconds=10)
"""Time without a row after which the ledger is asked whether the run goes on, which reads all of its rows."""

_CHUNK_BYTES = 4 * 1024 * 1024
"""Largest number of bytes to read of a journal at once, so that catching up with a long run needs little memory."""


@dataclass(frozen=True)
class JournalEntry:
    """A row, and its place in a journal."""

    journal: str
    """Name of its journal."""
    sequence: int
    """Its place there, from 0."""
    time: datetime
    row: Row

    @property
    def attempt(self) -> int:
        """The attempt that its journal belongs to."""
        return _attempt(self.journal)


class JournalTail:
    """Reads and verifies the rows that a journal has gained since the last reading."""

    def __init__(self, path: Path) -> None:
        """Begin at the first row."""
        self.path = path
        self.name = _name(path.name)
        """Name of the journal, also if the file is compressed."""
        self.attempt = _attempt(path.name)
        self.behind = False
        """Whether the last reading left whole rows for the next reading."""
        self.latest = datetime.min.replace(tzinfo=UTC)
        """Latest time of the rows read so far; it never goes back, even if the clock was set back."""
        self._offset = self._sequence = 0
        self._previous = GENESIS

    def read(self) -> list[JournalEntry]:
        """Return the next rows; an incomplete row at the end, or rows behind a hole, are left for the next call.

        Raises:
            LedgerDamageError: If a line is not what its writer wrote.
            OSError: If the file can't be read.
        """
        try:
            with open_journal(self.path) as file:
                file.seek(self._offset)
                data = file.read(_CHUNK_BYTES)
                if b"\n" not in data and len(data) == _CHUNK_BYTES:
                    data += file.readline()  # a row longer than a chunk
        except OSError as error:
            naming(error, self.path)
            raise
        entries = []
        for line in data.split(b"\n")[:-1]:
            if b"\0" in line:
                break  # a hole: rows that have not arrived on this host
            entries.append(self._entry(line + b"\n"))
            self._offset += len(line) + 1
        self.behind = bool(entries) and len(data) >= _CHUNK_BYTES
        return entries

    def _entry(self, line: bytes) -> JournalEntry:
        """Verify and decode a line."""
        decoded = decode_line(self.path, line, self._sequence, self._previous)
        self._previous = decoded.hash
        self._sequence += 1
        return JournalEntry(self.name, self._sequence - 1, decoded.time, decoded.row)


class RunFollower:
    """Follows the journals of a run, attempt by attempt."""

    def __init__(self, run_dir: Path) -> None:
        """Begin with the first row.

        Args:
            run_dir: The run's directory.
        """
        self._run_dir = run_dir
        self._tails: dict[str, JournalTail] = {}
        self._ended: dict[int, AttemptEnded] = {}
        self._newest = 0
        self._last_row_at = datetime.min.replace(tzinfo=UTC)

    def poll(self) -> list[JournalEntry]:
        """Return new rows by time, attempt by attempt, with each journal in its own order.

        All rows of an attempt are returned before the next attempt's rows, even if this takes several calls.

        Raises:
            LedgerDamageError: If a journal is damaged.
            OSError: If the directory or a journal can't be read.
        """
        for path in self._run_dir.iterdir():
            if _FOLLOWED.fullmatch(path.name):
                self._tails.setdefault(_name(path.name), JournalTail(path))
        placed: list[tuple[datetime, JournalEntry]] = []
        tails = sorted(self._tails.values(), key=lambda tail: (tail.attempt, tail.path.name))
        for _, own in itertools.groupby(tails, key=lambda tail: tail.attempt):
            found: list[tuple[datetime, JournalEntry]] = []
            together = list(own)
            for tail in together:
                for entry in tail.read():
                    self._note(entry)
                    tail.latest = max(tail.latest, entry.time)
                    found.append((tail.latest, entry))
            placed += sorted(found, key=itemgetter(0))
            if any(tail.behind for tail in together):
                break
        return [entry for _, entry in placed]

    def _note(self, entry: JournalEntry) -> None:
        """Keep what the run's status depends on."""
        if isinstance(entry.row, AttemptEnded):
            self._ended.setdefault(entry.attempt, entry.row)
        self._newest = max(self._newest, entry.attempt)
        self._last_row_at = entry.time

    @property
    def status(self) -> Status:
        """Status of the newest attempt: what its rows say, else what the ledger says of a run without new rows."""
        if (ended := self._ended.get(self._newest)) is not None:
            return ended.status
        if datetime.now(UTC) - self._last_row_at < _QUIET:
            return Status.RUNNING
        (run,) = read_ledger(self._run_dir).runs
        return run.attempts[-1].status if run.attempts else Status.RUNNING


def _attempt(journal: str) -> int:
    """Return the attempt that a journal belongs to."""
    match = _FOLLOWED.fullmatch(journal)
    assert match is not None
    return int(match[2])


def _name(file: str) -> str:
    """Return the name of the journal that a file contains, compressed or not."""
    match = _FOLLOWED.fullmatch(file)
    assert match is not None
    return match[1]
