"""The writer of one journal."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from ledger_lab.ledger.encoding import GENESIS, VERSION, encode_line
from ledger_lab.ledger.redaction import Redactor
from ledger_lab.ledger.rows import Row


@dataclass(frozen=True)
class _Line:
    """An encoded row."""

    data: bytes
    sequence: int
    hash: str


@dataclass(frozen=True)
class _State:
    """What a journal's writer knows of its file. It is replaced as a whole, so that no signal can tear it."""

    size: int
    """Bytes of the whole rows in the file."""
    last: _Line
    """The newest row."""
    waiting: tuple[_Line, ...] = ()
    """Rows that are not known to be whole in the file, the oldest first."""


class Journal:
    """An append-only file of hash-chained rows, written by exactly one process.

    Each row is one line. Rows of a durable kind are on disk when :meth:`append` returns. Others wait in memory while
    the file takes nothing, and are written, in their order, as soon as it does again.
    """

    def __init__(self, path: Path, on_trouble: Callable[[OSError], None] = lambda error: None) -> None:
        """Create the journal.

        Args:
            path: File to create; its folder exists.
            on_trouble: Hears, once in a row, of rows that could not be written and wait now.

        Raises:
            FileExistsError: If the journal exists: it has, or had, a writer of its own.
        """
        self.path = path
        self._on_trouble, self._in_trouble = on_trouble, False
        self._redactor = Redactor()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._state = _State(size=0, last=_Line(b"", -1, GENESIS))
        sync_folder(path.parent)

    def append(self, row: Row) -> None:
        """Write a row.

        It may be interrupted at any moment, by a signal or by a full disk: the next call finds out how far it came. A
        row that is whole in the file counts, half a row is cut off again and written anew.

        Args:
            row: The row.

        Raises:
            OSError: If a durable row could not be written whole, or not be synchronized to disk.
        """
        state = self._state
        record = {
            "v": VERSION,
            "seq": state.last.sequence + 1,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "kind": type(row).__name__,
            "data": self._redactor.value(row.to_data()) if row.DURABLE else row.to_data(),
            "prev": state.last.hash,
        }
        data, row_hash = encode_line(record)
        line = _Line(data, state.last.sequence + 1, row_hash)
        self._state = replace(state, last=line, waiting=(*state.waiting, line))
        try:
            self._write()
            if row.DURABLE:
                os.fsync(self._file)
        except OSError as error:
            if row.DURABLE:
                raise
            if not self._in_trouble:
                self._in_trouble = True
                self._on_trouble(error)
        else:
            self._in_trouble = False

    def _write(self) -> None:
        """Write what waits, after what came into the file already."""
        size = os.fstat(self._file).st_size
        self._settle(size)
        if size > self._state.size:
            os.ftruncate(self._file, self._state.size)
        data = b"".join(line.data for line in self._state.waiting)
        written = os.write(self._file, data)
        self._settle(self._state.size + written)
        if self._state.waiting:
            raise OSError(f"{self.path}: only {written} of {len(data)} bytes were written")

    def _settle(self, size: int) -> None:
        """Take rows that are whole in a file of this size off the waiting ones."""
        state = self._state
        whole, waiting = state.size, list(state.waiting)
        while waiting and whole + len(waiting[0].data) <= size:
            whole += len(waiting.pop(0).data)
        self._state = replace(state, size=whole, waiting=tuple(waiting))

    def close(self) -> None:
        """Synchronize what telemetry is left, and close the file.

        Raises:
            OSError: If rows still found no room.
        """
        if self._file < 0:
            return
        try:
            if self._state.waiting:
                self._write()
            os.fsync(self._file)
        finally:
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


def sync_folder(folder: Path) -> None:
    """Make a new file's name survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
