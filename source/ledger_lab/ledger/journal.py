"""The writer of one journal."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from ledger_lab.ledger.encoding import GENESIS, VERSION, encode_line
from ledger_lab.ledger.rows import Row


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
        self._sequence = 0
        self._previous = GENESIS
        _sync_folder(path.parent)

    def append(self, row: Row) -> None:
        """Write a row.

        Args:
            row: The row.

        Raises:
            OSError: If the row could not be written whole, or not be synchronized to disk.
        """
        line = encode_line(
            {
                "v": VERSION,
                "seq": self._sequence,
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "kind": type(row).__name__,
                "data": row.to_data(),
                "prev": self._previous,
            }
        )
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(f"{self.path}: only {written} of {len(line)} bytes of row {self._sequence} were written")
        if row.DURABLE:
            os.fsync(self._file)
        self._sequence += 1
        self._previous = json.loads(line)["hash"]

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
