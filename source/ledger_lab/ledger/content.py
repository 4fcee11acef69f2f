"""A verified journal that readers can keep in memory, because its longest rows are read from the file on demand."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import orjson

from ledger_lab.errors import UserError
from ledger_lab.ledger.compressed import open_journal
from ledger_lab.ledger.declarations import RunDeclared
from ledger_lab.ledger.digest import Digest, Place, digest_journal
from ledger_lab.ledger.encoding import (
    GENESIS,
    hash_of_body,
    kind_begins,
    parse_time,
    split_line,
    verify_lines,
    what_is_wrong,
)
from ledger_lab.ledger.kinds import KINDS
from ledger_lab.ledger.listing import COMPRESSED, LedgerDamageError
from ledger_lab.ledger.results import PanelResult
from ledger_lab.ledger.row import Row, decode_checked
from ledger_lab.ledger.tally import TALLIED, Tally, WindowSums
from ledger_lab.ledger.telemetry_sums import TelemetrySums

_R = TypeVar("_R", bound=Row)

_BULK = (*TALLIED, Tally)
"""Kinds with millions of rows: a digest holds their sums, and not their positions."""

_Decoded = tuple[tuple[Row, ...], tuple[datetime, ...]]

_DECODED_ROWS = 200_000
"""Largest number of rows that stay in memory after whole journals were read."""


@dataclass(frozen=True)
class JournalContent:
    """A verified journal.

    :attr:`rows` and :attr:`times` read the whole file, and so does :meth:`of` for phase windows and telemetry.
    :meth:`of` reads the lines of panel results, which are long. Every line that is read is verified again. All other
    rows are in memory.
    """

    path: Path
    digest: Digest

    @property
    def rows(self) -> tuple[Row, ...]:
        """All its rows, in order."""
        return _decoded(self)[0]

    @property
    def times(self) -> tuple[datetime, ...]:
        """Wall-clock time of each row. A time can be earlier than the time before it, if the clock was set back."""
        return _decoded(self)[1]

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.digest.rows

    @property
    def first_time(self) -> datetime:
        """When the first row was written."""
        return parse_time(self.digest.first_time)

    @property
    def last_time(self) -> datetime:
        """When the last row was written."""
        return parse_time(self.digest.last_time)

    @property
    def torn_bytes(self) -> int:
        """Bytes of an unfinished last line, which a killed writer may leave behind."""
        return self.digest.torn_bytes

    def has_grown(self) -> bool:
        """Tell whether its file is longer than it was when it was read. Compressed journals do not grow."""
        if self.path.suffix == COMPRESSED:
            return False
        try:
            return self.path.stat().st_size > self.digest.size + self.digest.torn_bytes
        except FileNotFoundError:
            return False

    @property
    def windows(self) -> WindowSums:
        """Sums of its phase windows."""
        return self.digest.sums.windows

    @property
    def telemetry(self) -> TelemetrySums:
        """Sums of its telemetry."""
        return self.digest.sums.telemetry

    def of(self, kind: type[_R]) -> list[_R]:
        """Return the rows of one kind, in order."""
        if kind in _BULK:
            return [row for row in self.rows if type(row) is kind]
        if kind is PanelResult:
            return cast(list[_R], self.fetch(self.places(kind)))
        if kind not in self._parsed:
            self._parsed[kind] = [self._parse(place, place.data) for place in self.places(kind)]
        return [*cast(list[_R], self._parsed[kind])]

    def one(self, kind: type[_R]) -> _R | None:
        """Return the first row of one kind, or ``None``."""
        return next(iter(self.of(kind)), None)

    def timed(self, kind: type[_R]) -> list[tuple[_R, datetime]]:
        """Return the rows of one kind, in order, with the wall-clock times at which they were written."""
        if kind in _BULK:
            pairs = zip(self.rows, self.times, strict=True)
            return [(row, time) for row, time in pairs if type(row) is kind]
        times = [parse_time(place.time) for place in self.places(kind)]
        return list(zip(self.of(kind), times, strict=True))

    def places(self, kind: type[Row]) -> list[Place]:
        """Return the positions of the rows of a kind, except phase windows and telemetry."""
        return self._places.get(kind.__name__, [])

    @cached_property
    def _places(self) -> dict[str, list[Place]]:
        """Positions of these rows, by their kind."""
        places: dict[str, list[Place]] = {}
        for place in self.digest.places:
            places.setdefault(place.kind, []).append(place)
        return places

    @cached_property
    def _parsed(self) -> dict[type[Row], list[Row]]:
        """Rows by their kind, as far as they were needed; not those that are read from the file."""
        return {}

    def fetch(self, places: list[Place]) -> list[Row]:
        """Read panel results from the file.

        Args:
            places: Their positions.

        Raises:
            LedgerDamageError: If a line has changed since the journal was verified.
            UserError: If the file can't be read any more.
        """
        if not places:
            return []
        rows: list[Row] = []
        try:
            with open_journal(self.path, buffering=0) as file:
                for place in places:
                    file.seek(place.offset)
                    line = file.read(place.length)
                    if hash_of_body(line) != place.hash.encode():
                        what = "the row was changed while the ledger was read"
                        raise LedgerDamageError(self.path, place.sequence + 1, what)
                    rows.append(self._parse(place, split_line(line, kind_begins(place.sequence)).data))
        except OSError as error:
            raise UserError(f"cannot read {self.path}: {error.strerror}") from error
        return rows

    def _parse(self, place: Place, data: bytes) -> Row:
        """Build a row from its verified fields."""
        kind = KINDS[place.kind]
        try:
            if kind is RunDeclared:  # the digest may not have checked its fields
                return kind.from_data(orjson.loads(data))
            return decode_checked(kind, data)
        except (TypeError, ValueError) as error:
            raise LedgerDamageError(self.path, place.sequence + 1, f"not a valid row: {error}") from error


_recent: OrderedDict[tuple[Path, str], _Decoded] = OrderedDict()
"""Rows of the journals that were decoded last, by path and last hash."""

_recent_rows = 0
"""Number of these rows."""


def _decoded(content: JournalContent) -> _Decoded:
    """Return all rows of a journal and their times."""
    global _recent_rows
    key = (content.path, content.digest.last_hash)
    if key not in _recent:
        _recent[key] = _decode_all(content)
        _recent_rows += content.digest.rows
    _recent.move_to_end(key)
    while len(_recent) > 1 and _recent_rows > _DECODED_ROWS:
        _, (rows, _) = _recent.popitem(last=False)
        _recent_rows -= len(rows)
    return _recent[key]


class DecodedLine(NamedTuple):
    """The content of a verified line."""

    time: datetime
    row: Row
    hash: bytes


def decode_line(path: Path, line: bytes, sequence: int, previous: bytes) -> DecodedLine:
    """Verify a line of a journal, and return its content.

    Args:
        path: The journal.
        line: The line.
        sequence: Its position in the journal, from 0.
        previous: Hash of the line before, or :data:`ledger_lab.ledger.encoding.GENESIS`.

    Raises:
        LedgerDamageError: If the line differs from what its writer wrote.
    """
    hashes = verify_lines([line], sequence, previous)
    if not hashes:
        raise LedgerDamageError(path, sequence + 1, what_is_wrong(line))
    try:
        parts = split_line(line, kind_begins(sequence))
        row = KINDS[parts.kind].from_data(orjson.loads(parts.data))
        return DecodedLine(parse_time(parts.time), row, hashes[0].encode())
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerDamageError(path, sequence + 1, f"not a valid row: {error}") from error


def _decode_all(content: JournalContent) -> _Decoded:
    """Read a journal as far as it was verified, and verify that it has not changed."""
    rows: list[Row] = []
    times: list[datetime] = []
    previous = GENESIS
    try:
        with open_journal(content.path) as file:
            for number in range(content.digest.rows):
                line = decode_line(content.path, file.readline(), number, previous)
                previous = line.hash
                rows.append(line.row)
                times.append(line.time)
    except OSError as error:
        raise UserError(f"cannot read {content.path}: {error.strerror}") from error
    if previous.decode() != content.digest.last_hash:
        raise LedgerDamageError(content.path, content.digest.rows, "the rows were changed while the ledger was read")
    return tuple(rows), tuple(times)


def read_journal(path: Path) -> JournalContent:
    """Read and verify one journal.

    Args:
        path: The journal.

    Returns:
        Its rows.

    Raises:
        LedgerDamageError: If a line differs from what its writer wrote, or is missing.
        OSError: If the file can't be read.
    """
    return JournalContent(path, digest_journal(path))
