"""The writer of one journal."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from ledger_lab.files import naming, sync_folder
from ledger_lab.ledger.encoding import GENESIS, encode_fields, encode_line, encode_value, hash_of
from ledger_lab.ledger.row import Row

SYNC_AT_LEAST_EVERY = 1 << 20
"""Amount of telemetry after which the file is synchronized to disk, even without a durable row [B]."""

_LINES_AT_ONCE = 1000
"""Largest number of lines per write, so that each attempt stays short when many lines wait for a full disk."""


@dataclass
class _Tail:
    """The rows of a journal that are not known to be on disk.

    A signal handler may raise an exception between any two steps. So each change is a single assignment or a single
    :meth:`list.append`, and writing the same bytes to the same offset again is harmless.
    """

    begin: int
    """Offset of the first line in the file [B]; everything before it is on disk."""
    sequence: int
    """Index of the first line in the journal."""
    previous: str
    """Hash of the line before the first line."""
    lines: list[bytes] = field(default_factory=list)
    written: tuple[int, int] = (0, 0)
    """Number of lines that are complete in the file, and their size [B]."""

    @property
    def newest(self) -> str:
        """Hash of the newest row."""
        return hash_of(self.lines[-1]) if self.lines else self.previous


class _Clock:
    """The time of day, which goes on if somebody sets the clock of the system back.

    Otherwise, the rows of a live run would suddenly be old, and other hosts would count it as lost.
    """

    def __init__(self) -> None:
        """Begin with the clock of the system."""
        self._seen = datetime.now(UTC), time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def now(self) -> datetime:
        """Return the time of the system's clock, or a later one if the clock was set back."""
        before, then_ns = self._seen
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        now = max(datetime.now(UTC), before + timedelta(microseconds=(now_ns - then_ns) // 1000))
        self._seen = now, now_ns
        return now


class Journal:
    """An append-only file of hash-chained rows, written by exactly one process, in one thread at a time.

    Each row is one line. Rows of a durable kind are on disk when :meth:`append` returns. Others wait in memory while
    the file cannot be written, and are written in order as soon as it can.
    """

    def __init__(self, path: Path, on_trouble: Callable[[OSError], None] = lambda error: None) -> None:
        """Create the journal.

        Args:
            path: File to create; its folder exists.
            on_trouble: Called once when rows could not be written and wait, and when rows are lost for good because
                they could not be written at the end of a ``with`` block that an exception ended.

        Raises:
            FileExistsError: If the journal exists: it has, or had, another writer.
        """
        self.path = path
        self._on_trouble, self._in_trouble = on_trouble, False
        from ledger_lab.ledger.redaction import Redactor  # compiles many patterns, which readers do not need

        self._redactor, self._clock = Redactor(), _Clock()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._tail = _Tail(begin=0, sequence=0, previous=GENESIS)
        sync_folder(path.parent)

    @property
    def accepted(self) -> int:
        """Number of rows that are part of the chain, written or not."""
        return self._tail.sequence + len(self._tail.lines)

    def append(self, row: Row) -> None:
        """Write a row.

        A signal or a full disk may interrupt the call at any moment. A row is accepted as soon as it is part of the
        chain. The next call writes all accepted rows that may not be in the file or on disk yet.

        Args:
            row: The row.

        Raises:
            OSError: If a durable row could not be written or synchronized to disk. It is not lost: it waits for the
                next call. Errors name the file.
            ValueError: If a number is not finite, or a field has another type or range than its kind of row declares;
                nothing is written. Readers would refuse such a row, and with it the journal.
            TypeError: If a value cannot be written as JSON; nothing is written.
        """
        data = encode_value(self._redactor.row(row)) if row.DURABLE else encode_fields(row)
        try:
            msgspec.json.decode(data, type=type(row))
        except ValueError as error:
            raise ValueError(f"{type(row).__name__}: {error}") from error
        now = self._clock.now().isoformat(timespec="milliseconds")
        tail = self._tail
        line = encode_line(tail.sequence + len(tail.lines), now, type(row).__name__, data, tail.newest)
        tail.lines.append(line)
        try:
            self._write()
            if row.DURABLE or tail.written[1] >= SYNC_AT_LEAST_EVERY:
                self._sync()
        except OSError as error:
            naming(error, self.path)
            if row.DURABLE:
                raise
            if not self._in_trouble:
                self._in_trouble = True
                self._on_trouble(error)
        else:
            self._in_trouble = False

    def settle(self) -> None:
        """Write all appended rows to disk.

        Raises:
            OSError: If the disk still cannot be written.
        """
        try:
            self._write()
            self._sync()
        except OSError as error:
            naming(error, self.path)
            raise

    def _write(self) -> None:
        """Write the lines that are not known to be complete in the file, over any partial copy."""
        tail = self._tail
        while (done := tail.written)[0] < len(tail.lines):
            count, size = done
            lines = tail.lines[count : count + _LINES_AT_ONCE]
            data = memoryview(b"".join(lines))
            taken = 0
            while taken < len(data):
                more = os.pwrite(self._file, data[taken:], tail.begin + size + taken)
                if more == 0:
                    raise OSError(errno.EIO, "the file takes no bytes", str(self.path))
                taken += more
            tail.written = (count + len(lines), size + len(data))

    def _sync(self) -> None:
        """Synchronize the file to disk.

        The system reports a failure once, and drops the bytes. So they are written again the next time.
        """
        tail = self._tail
        try:
            os.fsync(self._file)
        except OSError:
            tail.written = (0, 0)
            raise
        count, size = tail.written
        if count:
            begin, sequence = tail.begin + size, tail.sequence + count
            self._tail = _Tail(begin, sequence, hash_of(tail.lines[count - 1]), tail.lines[count:])

    def close(self) -> None:
        """Write and synchronize the remaining rows, and close the file.

        Raises:
            OSError: If some rows still could not be written.
        """
        if self._file < 0:
            return
        try:
            self.settle()
        finally:
            descriptor, self._file = self._file, -1  # closed, even if the system reports an error
            os.close(descriptor)

    def __enter__(self) -> Self:
        """Return the journal."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file. An exception that ended the context has priority over an error in closing."""
        try:
            self.close()
        except OSError as trouble:
            if error is None:
                raise
            lost = f"{len(self._tail.lines)} rows are lost: {trouble.strerror}"
            self._on_trouble(OSError(trouble.errno, lost, str(self.path)))
