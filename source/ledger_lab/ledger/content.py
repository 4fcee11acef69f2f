"""Reads journals: each line is verified, and decoded once into its row."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar, Union, cast

import msgspec
import orjson

from ledger_lab.ledger.declarations import CohortDeclared, RunDeclared
from ledger_lab.ledger.encoding import GENESIS, VERSION, hash_matches, hash_of_body, may_be_torn, what_is_wrong
from ledger_lab.ledger.listing import COMPRESSED, NO_FILE, LedgerDamageError
from ledger_lab.ledger.results import CapacityUsed, PanelResult
from ledger_lab.ledger.row import Row
from ledger_lab.ledger.rows import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    EvaluationEnded,
    EvaluationStarted,
    GradientNorms,
    Health,
    LearnerHashed,
    PhaseWindow,
    ShutdownEnded,
    StateRestored,
    StateSaved,
    SupervisionStarted,
)
from ledger_lab.ledger.sums import TelemetrySums, WindowSums
from ledger_lab.ledger.telemetry import Tally, Telemetry, TelemetryStarted

KINDS: dict[str, type[Row]] = {
    kind.__name__: kind
    for kind in (
        CohortDeclared,
        RunDeclared,
        SupervisionStarted,
        TelemetryStarted,
        AttemptStarted,
        PhaseWindow,
        Telemetry,
        Tally,
        Health,
        CheckpointSaved,
        PanelResult,
        CapacityUsed,
        LearnerHashed,
        GradientNorms,
        StateSaved,
        StateRestored,
        AttemptEnded,
        ShutdownEnded,
        EvaluationStarted,
        EvaluationEnded,
    )
}
"""Every kind of row by its name."""


_CHUNK = 1 << 17
"""Largest size of one read [B]; it fits into the caches of the processor."""

_LONGEST_LINE = 64 << 20
"""Length of the longest line [B]: the scores of half a million episodes. A sparse file has lines of any length."""

_AFTER_BODY = len(',"hash":"') + 64 + len('"}')
"""Length of a line after what its hash covers, without the newline [B]."""

_FIRST_TIME, _LAST_TIME = datetime(1970, 1, 1, tzinfo=UTC), datetime(2199, 12, 31, tzinfo=UTC)
"""Limits of a line's time. A machine without a clock starts in 1970. Valid times stay valid in local time."""

ARRIVES_WITHIN_NS = 2 * 60 * 1_000_000_000
"""Time after which every host sees what another host has written to a shared file system [ns]. NFS keeps attributes and
names for up to 60 s, and Linux keeps written pages for up to 35 s."""

_PAGE = 4096
"""Smallest size of a page [B]; all larger sizes are multiples of it."""

_ZEROS = re.compile(rb"\0+")

_SAMPLES = (PhaseWindow, Telemetry, Tally)
"""Kinds with millions of rows: readers keep their sums."""

_R = TypeVar("_R", bound=Row)


class Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """A decoded line of a journal."""

    v: Literal[VERSION]  # type: ignore[valid-type]  # a constant
    seq: int
    """Its index in the journal, from 0."""
    time: datetime
    """Wall-clock time of writing, in UTC. It can be earlier than that of the line before, if the clock was set back."""
    data: Row
    prev: str
    """Hash of the line before."""
    hash: str
    """Its own hash, which also covers all lines before it."""


_KINDS_OF_LINES = tuple(
    msgspec.defstruct(
        f"{name}Line", [("data", kind)], bases=(Line,), tag=name, kw_only=True, forbid_unknown_fields=True
    )
    for name, kind in KINDS.items()
)
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Union[_KINDS_OF_LINES])  # noqa: UP007 - of a tuple


def decode_line(path: Path, line: bytes, sequence: int, previous: str) -> Line:
    """Verify and decode one line of a journal.

    Args:
        path: The journal.
        line: The line, with its newline.
        sequence: Its index in the journal, from 0.
        previous: Hash of the line before it, or :data:`~ledger_lab.ledger.encoding.GENESIS`.

    Raises:
        LedgerDamageError: If it is not what its writer wrote there, or not a valid row.
    """
    if reason := what_is_wrong(line, sequence, previous):
        raise LedgerDamageError(path, sequence + 1, reason)
    try:
        decoded = _decoder.decode(line)
        if not _are_times([decoded]):
            raise ValueError(f"{decoded.time} is not a time in UTC between {_FIRST_TIME.year} and {_LAST_TIME.year}")
    except (ValueError, RecursionError) as error:
        raise LedgerDamageError(path, sequence + 1, f"not a valid row: {error}") from error
    return decoded


def _are_times(lines: list[Line]) -> bool:
    """Tell whether the times of lines are valid."""
    times = [line.time for line in lines]
    return {each.tzinfo for each in times} <= {UTC} and _FIRST_TIME <= min(times) <= max(times) < _LAST_TIME


@contextmanager
def open_journal(path: Path) -> Iterator[BinaryIO]:
    """Open a journal, compressed or not, without a buffer, until the context ends. Of a pipe, no writer is waited for.

    Raises:
        LedgerDamageError: If it is no file, or can't be decompressed.
        OSError: If the file can't be read.
    """
    with io.FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise LedgerDamageError(path, 1, NO_FILE)
        try:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file) if path.name.endswith(COMPRESSED) else file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise LedgerDamageError(path, 1, f"the compressed journal is damaged: {error}") from error


class _Verified:
    """Iterates over the verified lines of a journal. Its writer may still be writing."""

    def __init__(self, path: Path) -> None:
        """Begin at the first line."""
        self._path = path
        self.count = self.size = self.torn_bytes = 0
        self.last_hash = GENESIS

    def __iter__(self) -> Iterator[tuple[list[Line], list[bytes]]]:
        """Yield some hundred lines at a time, and the same lines as they are in the file, without their newlines.

        While they are processed, :attr:`size` is the offset of the first of them [B].

        Raises:
            LedgerDamageError: If a line differs from what its writer wrote, or is missing.
            OSError: If the file can't be read.
        """
        rest = b""
        with open_journal(self._path) as file:
            left = sys.maxsize if self._path.name.endswith(COMPRESSED) else os.fstat(file.fileno()).st_size
            while more := file.read(min(left, max(_CHUNK, len(rest)))):
                left -= len(more)  # what is appended meanwhile is left for the next reader
                data = rest + more
                *raw, rest = data.split(b"\n")
                if len(rest) >= _LONGEST_LINE:
                    raise self._damage(f"the line has no end within {_LONGEST_LINE >> 20} MiB: no writer wrote it")
                lines, error = self._verify(data[: len(data) - len(rest)], raw) if raw else ([], None)
                if lines:
                    yield lines, raw
                    self.count += len(lines)
                    self.size += sum(map(len, raw[: len(lines)])) + len(lines)
                    self.last_hash = lines[-1].hash
                if error is not None:
                    self._end_at_hole(error, raw[len(lines) :], rest, file)
                    return
            if rest:
                self._end(rest)

    def _verify(self, data: bytes, raw: list[bytes]) -> tuple[list[Line], LedgerDamageError | None]:
        """Return the decoded lines before the first wrong one, and what is wrong with that one."""
        try:
            lines = _decoder.decode_lines(data)
        except (ValueError, RecursionError):
            lines = []
        if len(lines) == len(raw) and self._follow(lines, raw):
            return lines, None
        lines, previous = [], self.last_hash
        for each in raw:
            try:
                lines.append(decode_line(self._path, each + b"\n", self.count + len(lines), previous))
            except LedgerDamageError as error:
                return lines, error
            previous = lines[-1].hash
        return lines, None

    def _follow(self, lines: list[Line], raw: list[bytes]) -> bool:
        """Tell whether decoded lines match their hashes, and follow the lines before them."""
        hashes = [sha256(each[:-_AFTER_BODY]).hexdigest() for each in raw]
        return (
            [line.hash for line in lines] == hashes
            and [line.prev for line in lines] == [self.last_hash, *hashes[:-1]][: len(lines)]
            and [line.seq for line in lines] == list(range(self.count, self.count + len(lines)))
            and (not lines or _are_times(lines))
        )

    def _end_at_hole(self, error: LedgerDamageError, raw: list[bytes], rest: bytes, file: BinaryIO) -> None:
        """End the journal at a hole, as far as it has arrived.

        Args:
            error: What is wrong with the first line.
            raw: The lines from the wrong one on.
            rest: The bytes after them.
            file: The rest of the journal.

        Raises:
            LedgerDamageError: If there is no hole, or no writer can have left it and everything should have arrived.
        """
        if self._path.suffix == COMPRESSED or not begins_hole(raw[0] + b"\n", self.size, self.count):
            raise error
        status = os.fstat(file.fileno())
        is_new = time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < ARRIVES_WITHIN_NS
        behind = chain((each + b"\n" for each in raw[1:]), _whole(rest, file))
        if not is_new and not may_lie_behind(behind):
            raise self._damage("zeros are in place of rows")
        self.torn_bytes = status.st_size - self.size

    def _end(self, rest: bytes) -> None:
        """End the journal before bytes without a newline.

        Raises:
            LedgerDamageError: If they are not the beginning of a line.
        """
        if not may_be_torn(rest, self.count) and not begins_hole(rest, self.size, self.count):
            raise self._damage("the line has no end, and is not what a stopped writer leaves behind")
        self.torn_bytes = len(rest)

    def _damage(self, reason: str) -> LedgerDamageError:
        """Return the error for the next line."""
        return LedgerDamageError(self._path, self.count + 1, reason)


def _whole(rest: bytes, file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of the rest of a file, the first of which was read in part."""
    lines = io.BufferedReader(cast(io.RawIOBase, file))
    yield from filter(None, [rest + lines.readline(_LONGEST_LINE)])
    yield from iter(partial(lines.readline, _LONGEST_LINE), b"")


def begins_hole(line: bytes, offset: int, sequence: int) -> bool:
    """Tell whether a hole begins in a line: zeros up to the end of a page, after the beginning of the expected row.

    A host sends the pages that it has written to a file server in any order. So other hosts may see later rows of a
    journal before earlier rows, with zeros in between. The zeros disappear when all pages have arrived. If the host
    goes down before that, they stay. No row contains a zero byte.

    Args:
        line: The line, or the bytes after the last newline.
        offset: Its offset in the journal [B].
        sequence: Index of the row that is expected there, from 0.
    """
    zeros = _ZEROS.search(line)
    if zeros is None or not may_be_torn(line[: zeros.start()], sequence):
        return False
    return zeros.end() == len(line) or (offset + zeros.end()) % _PAGE == 0


def may_lie_behind(lines: Iterable[bytes]) -> bool:
    """Tell whether a writer whose host went down may have left these lines behind a hole.

    A writer waits until each durable row is on disk before it writes another row. So at most the last row is durable.

    Args:
        lines: The lines after the one in which the hole begins; the last one may lack its newline.
    """
    ended = False
    for line in lines:
        if ended:
            return False
        if not line.endswith(b"\n") or b"\0" in line:
            continue
        if not hash_matches(line):
            return False
        try:
            kind = KINDS[orjson.loads(line)["kind"]]
        except (KeyError, TypeError, ValueError):  # no row of a journal, whatever its hash
            return False
        ended = kind.DURABLE
    return True


class Score(NamedTuple):
    """The checkpoint of a panel result, and where the result is: it is long, and read again when it is needed."""

    run_id: str
    checkpoint: str
    """Path below the run's directory."""
    sha256: str
    time: datetime
    number: int
    """Line number, from 1."""
    offset: int
    """Offset of its line [B]."""
    length: int
    """Length of its line, without the newline [B]."""
    hash: str


@dataclass(kw_only=True)
class JournalContent:
    """A verified journal. Sums stand for its phase windows and its telemetry, and scores for its panel results.

    :attr:`rows` and :attr:`times`, and :meth:`of` for these kinds, read the file again, and verify it again.
    """

    path: Path
    count: int = 0
    """Number of rows."""
    size: int = 0
    """Size of its rows [B]."""
    torn_bytes: int = 0
    """Bytes after the last complete row: of an unfinished line, which a killed writer may leave behind, or from a hole
    on (:func:`begins_hole`)."""
    first_hash: str = ""
    last_hash: str = GENESIS
    """Hash of the last row, which also covers all rows before it."""
    first_time: datetime = datetime.min.replace(tzinfo=UTC)
    """When the first row was written."""
    last_time: datetime = datetime.min.replace(tzinfo=UTC)
    """When the last row was written."""
    wall_ns: int = 0
    """Age of the attempt at its last heartbeat in this journal [ns]."""
    windows: WindowSums = field(default_factory=WindowSums)
    telemetry: TelemetrySums = field(default_factory=TelemetrySums)
    scores: list[Score] = field(default_factory=list)
    others: dict[type[Row], list[tuple[Row, datetime]]] = field(default_factory=dict)
    """All other rows by their kind, with their times, in order."""

    def has_grown(self) -> bool:
        """Tell whether its file is longer than it was when it was read. Compressed journals do not grow."""
        if self.path.suffix == COMPRESSED:
            return False
        try:
            return self.path.stat().st_size > self.size + self.torn_bytes
        except FileNotFoundError:
            return False

    def stream(self) -> Iterator[tuple[Row, datetime]]:
        """Yield all its rows with their times, in order; few of them are in memory at a time."""
        lines = chain.from_iterable(lines for lines, _ in _Verified(self.path))
        yield from ((line.data, line.time) for line in islice(lines, self.count))

    @property
    def rows(self) -> tuple[Row, ...]:
        """All its rows, in order."""
        return tuple(line.data for line in self._lines())

    @property
    def times(self) -> tuple[datetime, ...]:
        """Wall-clock time of each row."""
        return tuple(line.time for line in self._lines())

    def of(self, kind: type[_R]) -> list[_R]:
        """Return the rows of one kind, in order."""
        return [row for row, _ in self.timed(kind)]

    def one(self, kind: type[_R]) -> _R | None:
        """Return the first row of one kind, or ``None``."""
        return next(iter(self.of(kind)), None)

    def timed(self, kind: type[_R]) -> list[tuple[_R, datetime]]:
        """Return the rows of one kind, in order, with the wall-clock times at which they were written."""
        found: Any = self.others.get(kind, [])
        if kind in _SAMPLES:
            found = [(line.data, line.time) for line in self._lines() if type(line.data) is kind]
        elif kind is PanelResult:
            found = [(self.result(score), score.time) for score in self.scores]
        return found

    def result(self, score: Score) -> PanelResult:
        """Read a panel result from the file.

        Raises:
            LedgerDamageError: If the line has changed since the journal was verified, or can't be read any more.
        """
        try:
            with open_journal(self.path) as file:
                file.seek(score.offset)
                line = file.read(score.length) + b"\n"
        except OSError as error:
            raise LedgerDamageError(self.path, score.number, f"it can't be read any more: {error.strerror}") from error
        if hash_of_body(line) != score.hash:
            raise LedgerDamageError(self.path, score.number, "the row was changed while the ledger was read")
        return cast(PanelResult, _decoder.decode(line).data)

    def _lines(self) -> list[Line]:
        """Return all lines of the file, as far as it was verified."""
        try:
            return _lines_of(self.path, self.count, self.last_hash)
        except OSError as error:
            raise LedgerDamageError(self.path, 1, f"it can't be read any more: {error.strerror}") from error


@lru_cache(maxsize=4)
def _lines_of(path: Path, count: int, last_hash: str) -> list[Line]:
    """Read the first lines of a journal, the last of which must have a certain hash."""
    lines: list[Line] = []
    for more, _ in _Verified(path):
        lines += more
        if len(lines) >= count:
            break
    if (lines[count - 1].hash if 0 < count <= len(lines) else GENESIS) != last_hash:
        raise LedgerDamageError(path, count, "the rows were changed while the ledger was read")
    return lines[:count]


def read_journal(path: Path, *, summed: bool = True) -> JournalContent:
    """Read and verify one journal.

    Args:
        path: The journal.
        summed: Whether to sum up phase windows and telemetry. A reader that only looks for damage needs no sums.

    Raises:
        LedgerDamageError: If a line differs from what its writer wrote, or is missing.
        OSError: If the file can't be read.
    """
    content, verified = JournalContent(path=path), _Verified(path)
    windows, telemetry, others = content.windows, content.telemetry, content.others
    wall_ns = 0
    for lines, raw in verified:
        for index, line in enumerate(lines):
            row: Any = line.data
            kind = type(row)
            if kind is PhaseWindow:
                if summed:
                    windows.add(row)
                elif row.iteration:
                    windows.iterations = row.iteration
            elif kind is Telemetry:
                if summed:
                    telemetry.add(line.time, row)
            elif kind is PanelResult:
                offset = verified.size + sum(map(len, raw[:index])) + index
                named = row.run_id, row.checkpoint, row.checkpoint_sha256
                content.scores.append(Score(*named, line.time, line.seq + 1, offset, len(raw[index]), line.hash))
                wall_ns = max(wall_ns, row.wall_ns)
            elif kind is not Tally:
                others.setdefault(kind, []).append((row, line.time))
                wall_ns = max(wall_ns, getattr(row, "wall_ns", 0))
        if not content.first_hash:
            content.first_hash, content.first_time = lines[0].hash, lines[0].time
        content.last_time = lines[-1].time
    content.count, content.size, content.torn_bytes = verified.count, verified.size, verified.torn_bytes
    content.last_hash, content.wall_ns = verified.last_hash, max(wall_ns, windows.wall_ns, telemetry.wall_ns)
    return content
