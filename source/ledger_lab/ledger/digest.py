"""Digests of journals: the sums of the telemetry and phase windows, and the positions of the other rows.

A journal of a million rows takes a gigabyte as objects; its digest takes a few kilobytes. Making a digest verifies
every line. It adds up the rows since the last tally (:mod:`ledger_lab.ledger.tally`), or all rows in thorough mode.
"""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress, count, repeat
from operator import not_
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson

from ledger_lab.ledger.compressed import Inflated
from ledger_lab.ledger.declarations import RunDeclared
from ledger_lab.ledger.encoding import (
    GENESIS,
    begins_like_a_row,
    kind_and_data,
    kind_begins,
    may_be_torn,
    parse_time,
    split_line,
    verify_lines,
    what_is_wrong,
)
from ledger_lab.ledger.holes import ARRIVES_WITHIN_NS, begins_hole, may_lie_behind
from ledger_lab.ledger.kinds import KINDS
from ledger_lab.ledger.listing import COMPRESSED, NO_FILE, LedgerDamageError
from ledger_lab.ledger.results import CapacityUsed, PanelResult
from ledger_lab.ledger.row import check_fields
from ledger_lab.ledger.rows import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Health,
    ShutdownEnded,
    SupervisionStarted,
)
from ledger_lab.ledger.states import LearnerHashed, StateRestored, StateSaved
from ledger_lab.ledger.tally import TALLIED_BEGIN, Sums, Tally

_BUFFER = 1 << 17
"""Size of one read [B]; it fits into the caches of the processor."""

_LONGEST_LINE = 64 << 20
"""Length of the longest line [B]: the scores of half a million episodes. A sparse file has lines of any length."""

_LONGEST_REST = 4 << 20
"""Length of the longest rest of a stopped writer that does not begin like a row [B]: zeros, which some file systems
write after a power failure."""

_MOST_WAITING = 32
"""Largest number of buffers whose rows wait for a tally."""

_AGED = (
    SupervisionStarted,
    AttemptStarted,
    Health,
    CheckpointSaved,
    CapacityUsed,
    PanelResult,
    LearnerHashed,
    StateSaved,
    StateRestored,
    AttemptEnded,
    ShutdownEnded,
)
"""Kinds besides telemetry whose ``wall_ns`` is an age of the attempt."""

_TALLY = kind_and_data(Tally.__name__)
_INVALID = (AttributeError, KeyError, TypeError, ValueError)
"""Exceptions of a row whose fields do not fit its kind."""


class Place(NamedTuple):
    """Position of a row."""

    kind: str
    sequence: int
    """Index in the journal, from 0."""
    offset: int
    """Offset of its line [B]."""
    length: int
    """Length of its line [B]."""
    time: str
    """Time of writing by the wall clock, ISO 8601."""
    hash: str
    """Hash of the row, which also covers all rows before it."""
    data: bytes
    """Its fields as JSON; empty for a panel result, which is long."""


class Score(NamedTuple):
    """The checkpoint that a panel result belongs to."""

    run_id: str
    checkpoint: str
    """Path below the run's directory."""
    sha256: str


@dataclass(kw_only=True)
class Digest:
    """Summary of a journal, as plain data."""

    rows: int = 0
    size: int = 0
    """Size of its complete rows [B]."""
    torn_bytes: int = 0
    """Bytes after the last complete row: of an unfinished line, or from a hole on (:mod:`ledger_lab.ledger.holes`)."""
    last_hash: str = ""
    """Hash of the last row, which also covers all rows before it."""
    first_time: str = ""
    """Time of the first row, ISO 8601."""
    last_time: str = ""
    """Time of the last row, ISO 8601."""
    wall_ns: int = 0
    """Age of the attempt at its last heartbeat in this journal [ns]."""
    sums: Sums = field(default_factory=Sums)
    """Sums of its phase windows and telemetry."""
    places: list[Place] = field(default_factory=list)
    """Positions of all other rows except tallies, in order."""
    scores: list[Score] = field(default_factory=list)
    """The checkpoints of its panel results, in order."""


def digest_journal(path: Path, *, thorough: bool = True) -> Digest:
    """Verify a journal from the first byte to the last, and digest it.

    Args:
        path: The journal. Its writer may still be writing.
        thorough: Whether to also parse every row and check the tallies. Otherwise, only the hash of a row is verified
            if the digest does not need its content.

    Raises:
        LedgerDamageError: If a line differs from what its writer wrote, or is missing.
        OSError: If the file can't be read.
    """
    reading = _Reading(path, thorough)
    if not stat.S_ISREG(path.stat().st_mode):
        raise LedgerDamageError(path, 1, NO_FILE)  # to open a pipe takes until somebody writes
    with path.open("rb", buffering=_BUFFER) as stored:
        status = os.fstat(stored.fileno())
        changed_ns = max(status.st_mtime_ns, status.st_ctime_ns)
        file = io.BufferedReader(Inflated(path, stored), _BUFFER) if path.suffix == COMPRESSED else stored
        while (lines := _next_lines(file)) and lines[-1].endswith(b"\n"):
            if hole := reading.add(lines):
                break
        else:
            *whole, rest = lines or [b""]
            if not (hole := reading.add(whole)):
                return reading.end(rest)
            hole.append(rest)
        return reading.end_at_hole(hole, file, changed_ns)


def _next_lines(file: BinaryIO) -> list[bytes]:
    """Return the next lines of a journal, a few at a time; of a line that is too long, only the beginning."""
    lines = io.BytesIO(file.read(_BUFFER)).readlines()
    if lines and not lines[-1].endswith(b"\n"):
        lines[-1] += file.readline(_longest(lines[-1]))
    return lines


def _longest(line: bytes) -> int:
    """Return how long a line may be that begins like this [B]."""
    return _LONGEST_LINE if begins_like_a_row(line) else _LONGEST_REST


class _Reading:
    """Reader of one journal. It handles many lines at once, because any work per line counts for a million lines."""

    def __init__(self, path: Path, thorough: bool) -> None:
        """Start at the first line."""
        self._path, self._thorough = path, thorough
        self._digest, self._previous = Digest(), GENESIS
        self._last_line = b""
        """The last line that was verified."""
        self._tally: tuple[int, bytes] | None = None
        """Position and line of the last tally."""
        self._waiting: list[tuple[int, list[bytes]]] = []
        """Lines after the last tally, with the index of the first one of each buffer. The next tally may cover them."""

    def add(self, lines: list[bytes]) -> list[bytes]:
        """Verify the next lines, and digest them.

        Returns:
            The lines from the one on in which a hole begins; none if there is no hole.
        """
        while lines:
            alike = 10 ** len(str(self._digest.rows)) - self._digest.rows  # lines whose kinds start at the same byte
            verified = self._add(lines[:alike])
            lines = lines[verified:]
            if verified < alike:
                break
        if len(self._waiting) > _MOST_WAITING:
            self._sum_up()
        return lines

    def _add(self, lines: list[bytes]) -> int:
        """Verify lines whose kinds start at the same byte, digest them, and return how many come before a hole."""
        digest, first = self._digest, self._digest.rows
        kind_at, hashes = kind_begins(first), verify_lines(lines, first, self._previous)
        verified, begin = lines[: len(hashes)], 0
        tallied = map(bytes.startswith, verified, repeat(TALLIED_BEGIN), repeat(kind_at))
        offsets = [*accumulate(map(len, verified), initial=digest.size)]
        for index in compress(count(), map(not_, tallied)):
            number, line = first + index, verified[index]
            if line.startswith(_TALLY, kind_at):
                self._waiting.append((first + begin, verified[begin:index]))
                self._take_tally(number, line)
                begin = index + 1
            else:
                self._take(number, line, offsets[index], hashes[index])
        self._waiting.append((first + begin, verified[begin:]))
        if len(verified) < len(lines):
            wrong, number = lines[len(verified)], first + len(verified)
            if self._path.suffix == COMPRESSED or not begins_hole(wrong, offsets[-1], number):
                self._sum_up()  # report the first damage
                raise LedgerDamageError(self._path, number + 1, what_is_wrong(wrong))
        if verified:
            digest.rows, digest.size, self._previous = first + len(verified), offsets[-1], hashes[-1].encode()
            digest.first_time = digest.first_time or self._time(first, lines[0])
            self._last_line = verified[-1]
        return len(verified)

    def _time(self, number: int, line: bytes) -> str:
        """Return the time of a line."""
        try:
            time = split_line(line, kind_begins(number)).time
            parse_time(time)
        except _INVALID as error:
            raise self._invalid(number, error) from error
        return time

    def _take(self, number: int, line: bytes, offset: int, row_hash: str) -> None:
        """Digest a row that no tally covers, by its position."""
        try:
            parts = split_line(line, kind_begins(number))
            if parts.kind not in KINDS:
                raise ValueError(f"no row is of the kind {parts.kind!r}")
            parse_time(parts.time)
            if self._thorough or parts.kind != RunDeclared.__name__:  # a declaration is parsed by every reader
                kind = KINDS[parts.kind]
                row = check_fields(kind, parts.data)
                if issubclass(kind, _AGED):
                    self._digest.wall_ns = max(self._digest.wall_ns, row.wall_ns)
                if kind is PanelResult:
                    self._digest.scores.append(Score(row.run_id, row.checkpoint, row.checkpoint_sha256))
        except _INVALID as error:
            raise self._invalid(number, error) from error
        data = b"" if parts.kind == PanelResult.__name__ else parts.data
        self._digest.places.append(Place(parts.kind, number, offset, len(line), parts.time, row_hash, data))

    def _take_tally(self, number: int, line: bytes) -> None:
        """Use a tally in place of the rows that it covers, or check it against them."""
        if not self._thorough:
            self._tally, self._waiting = (number, line), []
            return
        self._sum_up()
        if self._sums_in(number, line) != self._digest.sums:
            raise LedgerDamageError(self._path, number + 1, "the tally is not what the rows before it come to")

    def _sum_up(self) -> None:
        """Add up the rows that no tally covers."""
        if self._tally is not None:
            self._digest.sums = self._sums_in(*self._tally)
        for first, lines in self._waiting:
            kind_at = kind_begins(first)
            for number, line in enumerate(lines, start=first):
                try:
                    self._digest.sums.add(line, kind_at)
                    if self._thorough:
                        parse_time(split_line(line, kind_at).time)
                except _INVALID as error:
                    raise self._invalid(number, error) from error
        self._tally, self._waiting = None, []

    def _sums_in(self, number: int, line: bytes) -> Sums:
        """Return the content of a tally."""
        try:
            return Sums.from_data(orjson.loads(split_line(line, kind_begins(number)).data))
        except _INVALID as error:
            raise self._invalid(number, error) from error

    def _invalid(self, number: int, error: Exception) -> LedgerDamageError:
        """Return the error for an invalid row."""
        return LedgerDamageError(self._path, number + 1, f"not a valid row: {error}")

    def end_at_hole(self, lines: list[bytes], file: BinaryIO, changed_ns: int) -> Digest:
        """Return the digest of a journal as far as it has arrived.

        Args:
            lines: The next lines; a hole begins in the first one.
            file: The rest of the journal.
            changed_ns: When the journal was last changed before it was read [ns].

        Raises:
            LedgerDamageError: If no writer can have left this hole, and everything should have arrived long ago.
        """
        size = 0

        def behind() -> Iterator[bytes]:
            nonlocal size
            for line in chain(lines, iter(lambda: file.readline(_LONGEST_LINE), b"")):
                size += len(line)
                yield line

        rest = behind()
        next(rest)
        is_new = time.time_ns() - changed_ns < ARRIVES_WITHIN_NS
        if not may_lie_behind(rest) and not is_new:
            self._sum_up()
            raise LedgerDamageError(self._path, self._digest.rows + 1, "zeros are in place of rows")
        for _ in rest:
            pass
        return self._finish(size)

    def end(self, rest: bytes) -> Digest:
        """Handle the bytes after the last newline, and return the digest."""
        digest = self._finish(len(rest))
        if len(rest) >= (longest := _longest(rest)):
            reason = f"the line has no end within {longest >> 20} MiB: no writer wrote it"
            raise LedgerDamageError(self._path, digest.rows + 1, reason)
        if not may_be_torn(rest, digest.rows) and not begins_hole(rest, digest.size, digest.rows):
            reason = "the line has no end, and is not what a stopped writer leaves behind"
            raise LedgerDamageError(self._path, digest.rows + 1, reason)
        return digest

    def _finish(self, torn_bytes: int) -> Digest:
        """Return the digest."""
        digest = self._digest
        self._sum_up()
        if self._last_line:
            digest.last_time = self._time(digest.rows - 1, self._last_line)
        digest.torn_bytes, digest.last_hash = torn_bytes, self._previous.decode()
        digest.wall_ns = max(digest.wall_ns, digest.sums.wall_ns)
        return digest
