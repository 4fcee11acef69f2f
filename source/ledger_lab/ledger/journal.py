"""The writer of one journal."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from ledger_lab.ledger.encoding import GENESIS, VERSION, encode_line
from ledger_lab.ledger.rows import Row


@dataclass(frozen=True)
class _End:
    """Where a journal ends."""

    size: int
    """Bytes."""
    sequence: int
    """Rows."""
    previous: str
    """Hash of the last row."""


class Journal:
    """An append-only file of hash-chained rows, written by exactly one process.

    Each row is one ``write`` of one line. Rows of a durable kind are on disk when :meth:`append` returns.
    """

    def __init__(self, path: Path) -> None:
        """Create the journal.

        Args:
            path: File to create; its folder exists.

        Raises:
            FileExistsError: If the journal exists: it has, or had, a writer of its own.
        """
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self._end = _End(size=0, sequence=0, previous=GENESIS)
        self._unsettled: _End | None = None
        _sync_folder(path.parent)

    def append(self, row: Row) -> None:
        """Write a row.

        It may be interrupted at any moment, by a signal or by a full disk: the next call finds out how far it came. A
        row that is whole in the file counts, half a row is cut off again.

        Args:
            row: The row.

        Raises:
            OSError: If the row could not be written whole, or not be synchronized to disk.
        """
        self._settle()
        record = {
            "v": VERSION,
            "seq": self._end.sequence,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "kind": type(row).__name__,
            "data": row.to_data(),
            "prev": self._end.previous,
        }
        line, row_hash = encode_line(record)
        self._unsettled = _End(self._end.size + len(line), self._end.sequence + 1, row_hash)
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(f"{self.path}: only {written} of {len(line)} bytes of row {record['seq']} were written")
        if row.DURABLE:
            os.fsync(self._file)
        self._end = self._unsettled

    def _settle(self) -> None:
        """Find out how far an interrupted append came."""
        size = os.fstat(self._file).st_size
        if self._unsettled is not None and size == self._unsettled.size:
            self._end = self._unsettled
        elif size > self._end.size:
            os.ftruncate(self._file, self._end.size)

    def close(self) -> None:
        """Synchronize what telemetry is left, and close the file."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        """Return the journal."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()


def _sync_folder(folder: Path) -> None:
    """Make a new file's name survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
