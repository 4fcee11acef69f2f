"""Follows the journals of a run while the run writes them."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path

from ledger_lab.files import naming
from ledger_lab.ledger import AttemptEnded, Row, Status, read_ledger
from ledger_lab.ledger.content import decode_line, open_journal
from ledger_lab.ledger.encoding import GENESIS

_FOLLOWED = re.compile(r"(?P<name>journal-(?P<attempt>\d+)-(?:0|supervisor|telemetry)\.jsonl)(?:\.gz)?")
"""Journals that are followed: of each attempt, the first process's, its supervisor's, and its telemetry."""

_QUIET = timedelta(seconds=10)
"""Time without a row after which the ledger is asked whether the run goes on, which reads all of its rows."""

_CHUNK_BYTES = 4 * 1024 * 1024
"""Largest number of bytes to read of a journal at once, so that catching up with a long run needs little memory."""


@dataclass(frozen=True)
class JournalEntry:
    """A row, and its place in a journal."""

    journal: str
    """Name of its journal, also if the file is compressed."""
    attempt: int
    """The attempt that its journal belongs to."""
    sequence: int
    """Its place there, from 0."""
    time: datetime
    row: Row


class JournalTail:
    """Reads and verifies the rows that a journal has gained since the last reading."""

    def __init__(self, path: Path) -> None:
        """Begin at the first row."""
        match = _FOLLOWED.fullmatch(path.name)
        assert match is not None
        self.path, self.name, self.attempt = path, match["name"], int(match["attempt"])
        self.behind = False
        """Whether the last reading left whole rows for the next reading."""
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
            raise naming(error, self.path) from None
        entries = []
        for line in data.split(b"\n")[:-1]:
            if b"\0" in line:
                break  # a hole: rows that have not arrived on this host
            decoded = decode_line(self.path, line + b"\n", self._sequence, self._previous)
            entries.append(JournalEntry(self.name, self.attempt, self._sequence, decoded.time, decoded.data))
            self._previous = decoded.hash
            self._sequence += 1
            self._offset += len(line) + 1
        self.behind = bool(entries) and len(data) >= _CHUNK_BYTES
        return entries


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
            if match := _FOLLOWED.fullmatch(path.name):
                self._tails.setdefault(match["name"], JournalTail(path))
        found: list[JournalEntry] = []
        tails = sorted(self._tails.values(), key=attrgetter("attempt", "name"))
        for _, own in itertools.groupby(tails, key=attrgetter("attempt")):
            together = list(own)
            found += sorted((entry for tail in together for entry in tail.read()), key=attrgetter("time"))
            if any(tail.behind for tail in together):
                break
        for entry in found:
            if isinstance(entry.row, AttemptEnded):
                self._ended.setdefault(entry.attempt, entry.row)
            self._newest, self._last_row_at = max(self._newest, entry.attempt), entry.time
        return found

    @property
    def status(self) -> Status:
        """Status of the newest attempt: what its rows say, else what the ledger says of a run without new rows."""
        if (ended := self._ended.get(self._newest)) is not None:
            return ended.status
        if datetime.now(UTC) - self._last_row_at < _QUIET:
            return Status.RUNNING
        (run,) = read_ledger(self._run_dir).runs
        return run.attempts[-1].status if run.attempts else Status.RUNNING
