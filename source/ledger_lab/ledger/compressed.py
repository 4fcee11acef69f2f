"""Journals that were compressed with gzip after their last row."""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path
from typing import BinaryIO

from ledger_lab.ledger.listing import COMPRESSED, LedgerDamageError

_MOST_DECOMPRESSED = 256 << 20
"""Largest size of a compressed journal after decompression [B]; readers of single rows hold it in memory."""

_READ = 1 << 17
"""Size of one read of compressed bytes [B]."""


class Inflated(io.RawIOBase):
    """The lines of a compressed journal, decompressed only as far as they are read."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Begin at the first line.

        Args:
            path: The journal.
            file: Its open file.

        Raises:
            LedgerDamageError: If it is too large.
        """
        self._path, self._file = path, file
        self._stream, self._left = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), _MOST_DECOMPRESSED  # gzip's format
        if os.fstat(file.fileno()).st_size > _MOST_DECOMPRESSED:
            raise self._damage(f"the compressed journal has more than {_MOST_DECOMPRESSED >> 20} MiB")

    def readable(self) -> bool:
        """Tell that bytes can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # any writable buffer
        """Read the next bytes.

        Raises:
            LedgerDamageError: If they can't be decompressed, are too many, or something else follows them.
        """
        while not self._stream.eof:
            packed = self._stream.unconsumed_tail or self._file.read(_READ)
            try:
                lines = self._stream.decompress(packed, len(buffer))
            except zlib.error as error:
                raise self._damage(f"the compressed journal is damaged: {error}") from error
            self._left -= len(lines)
            if self._left < 0:
                raise self._damage(f"decompressed it has more than {_MOST_DECOMPRESSED >> 20} MiB")
            if lines:
                buffer[: len(lines)] = lines
                return len(lines)
            if not packed:
                raise self._damage("the compressed journal is cut off")
        if self._stream.unused_data or self._file.read(1):
            raise self._damage("something follows the compressed journal")
        return 0

    def _damage(self, reason: str) -> LedgerDamageError:
        """Return the error for a damaged journal."""
        return LedgerDamageError(self._path, 1, reason)


def open_journal(path: Path, buffering: int = -1) -> BinaryIO:
    """Open a journal, compressed or not, to read any of its lines.

    Args:
        path: The journal.
        buffering: As for :func:`open`; 0 suits the reader of a few rows.

    Raises:
        LedgerDamageError: If a compressed journal can't be decompressed.
        OSError: If the file can't be read.
    """
    file: BinaryIO = path.open("rb", buffering)
    if path.suffix != COMPRESSED:
        return file
    with file:
        return io.BytesIO(io.BufferedReader(Inflated(path, file), _READ).read())
