"""What one pass over a journal leaves in memory: sums of its telemetry, and where its other rows stand.

A journal of a million rows is a gigabyte of objects; its digest is a kilobyte. The pass verifies every line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import orjson

from ledger_lab.errors import UserError
from ledger_lab.ledger.encoding import (
    GENESIS,
    TAIL_LENGTH,
    TIME_LENGTH,
    kind_and_data,
    kind_begins,
    may_be_torn,
    split_line,
    verify_line,
    what_is_wrong,
)
from ledger_lab.ledger.kinds import KINDS
from ledger_lab.ledger.results import PanelResult
from ledger_lab.ledger.rows import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Health,
    PhaseWindow,
    Row,
    RunDeclared,
    ShutdownEnded,
    SupervisionStarted,
    Telemetry,
)
from ledger_lab.ledger.telemetry_sums import TelemetrySums

_CHUNK = 1 << 20
"""Bytes that are read at once [B]."""

_LONG = (PanelResult.__name__, RunDeclared.__name__)
"""Kinds whose rows are long, and are parsed when somebody asks for them."""

_AGED = (SupervisionStarted, AttemptStarted, Health, CheckpointSaved, AttemptEnded, ShutdownEnded)
"""Kinds besides telemetry whose ``wall_ns`` is an age of the attempt."""

_WINDOW, _TELEMETRY = kind_and_data(PhaseWindow.__name__), kind_and_data(Telemetry.__name__)
_WINDOW_FIELDS = frozenset(each.name for each in fields(PhaseWindow))
_FIGURES, _SUMMED = b',"figures":', _WINDOW_FIELDS - {"figures", "non_finite"}


class LedgerDamageError(UserError):
    """A journal says something that its writer can't have written."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        """Locate the damage.

        Args:
            path: The journal.
            line: Line number, from 1.
            reason: What is wrong with the line.
        """
        super().__init__(f"{path}:{line}: {reason}")
        self.path, self.line, self.reason = path, line, reason

    def __reduce__(self) -> tuple[type[Self], tuple[Path, int, str]]:
        """Come back from another process as the same error."""
        return type(self), (self.path, self.line, self.reason)


class Stamp(NamedTuple):
    """What the system says of a file, and says otherwise as soon as anybody has touched it."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    """Time of the last change of content or attributes [ns]. Unlike the one before, no program can set it."""

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        """Return the stamp in a file's status."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Place(NamedTuple):
    """Where a row stands."""

    kind: str
    sequence: int
    """Place in the journal, from 0."""
    offset: int
    """First byte of its line [B]."""
    length: int
    """Bytes of its line without the newline [B]."""
    time: str
    """When it was written, by the wall clock, ISO 8601."""
    hash: str
    """Its own hash, which stands for all rows before it, too."""


@dataclass(kw_only=True, slots=True)
class WindowSums:
    """What the phase windows of a journal come to."""

    count: int = 0
    phase_ns: dict[str, int] = field(default_factory=dict)
    """Nanoseconds per phase."""
    env_steps: int = 0
    """Environment steps of all processes."""
    iterations: int = 0
    """Iterations completed."""
    wall_ns: int = 0
    """Age of the process at the end of its last window [ns]."""

    def add(self, window: dict[str, Any]) -> None:
        """Add the fields of a window; those of the training's figures may be missing.

        Raises:
            TypeError: If another one is missing or unknown.
        """
        if window.keys() != _SUMMED and window.keys() != _WINDOW_FIELDS:
            raise TypeError(f"its fields are {sorted(window)}")
        self.count += 1
        phase_ns = self.phase_ns
        for phase, spent_ns in window["phase_ns"].items():
            phase_ns[phase] = phase_ns.get(phase, 0) + spent_ns
        if window["env_steps"] > self.env_steps:
            self.env_steps = window["env_steps"]
        if (window["iteration"] or 0) > self.iterations:
            self.iterations = window["iteration"]
        if window["wall_ns"] > self.wall_ns:
            self.wall_ns = window["wall_ns"]


@dataclass(kw_only=True)
class Digest:
    """What is kept of a journal. Plain data."""

    rows: int = 0
    size: int = 0
    """Bytes of its whole rows [B]."""
    torn_bytes: int = 0
    """Bytes after them: an unfinished last line."""
    last_hash: str = ""
    """Hash of the last row, which stands for all before it."""
    first_time: str = ""
    """When the first row was written, ISO 8601."""
    last_time: str = ""
    """When the last row was written, ISO 8601."""
    wall_ns: int = 0
    """Age of the attempt at its last sign of life in this journal [ns]."""
    windows: WindowSums = field(default_factory=WindowSums)
    telemetry: TelemetrySums = field(default_factory=TelemetrySums)
    places: list[Place] = field(default_factory=list)
    """All rows but phase windows and telemetry, in order."""

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Build a digest from its JSON value."""
        windows, telemetry = WindowSums(**data["windows"]), TelemetrySums.from_data(data["telemetry"])
        places = [Place(*place) for place in data["places"]]
        return cls(**{**data, "windows": windows, "telemetry": telemetry, "places": places})

    @classmethod
    def of(cls, rows: Sequence[Row], times: Sequence[datetime]) -> Self:
        """Digest rows that stand in no file.

        Args:
            rows: The rows, in order.
            times: When each one was written.
        """
        first, last = (times[0].isoformat(), times[-1].isoformat()) if times else ("", "")
        digest = cls(rows=len(rows), first_time=first, last_time=last)
        for row, time in zip(rows, times, strict=True):
            if isinstance(row, PhaseWindow):
                digest.windows.add(row.to_data())
            elif isinstance(row, Telemetry):
                digest.telemetry.add(time.isoformat(), row.to_data())
            elif isinstance(row, _AGED):
                digest.wall_ns = max(digest.wall_ns, row.wall_ns)
        digest.wall_ns = max(digest.wall_ns, digest.windows.wall_ns, digest.telemetry.wall_ns)
        return digest


def digest_journal(path: Path, *, thorough: bool = True) -> tuple[Stamp, Digest]:
    """Verify a journal from its first to its last byte, and digest it.

    Args:
        path: The journal. Its writer may go on writing: the digest is of what was there at the beginning.
        thorough: Whether to parse panel results and the figures of a training, too. They are more than half of a
            journal, and nothing here sums them up; their bytes are what their writer wrote in either case.

    Returns:
        What the system said of the file before it was read, and the digest.

    Raises:
        LedgerDamageError: If a line is not what its writer wrote, or is missing.
        OSError: If the file can't be read.
    """
    digest = Digest()
    add_window, add_telemetry = digest.windows.add, digest.telemetry.add
    previous, kind_at = GENESIS, 0
    with path.open("rb", buffering=0) as file:
        stamp = Stamp.of(os.fstat(file.fileno()))
        for lines, tail in _pieces(file.fileno(), stamp.size):
            size = digest.size
            for number, line in enumerate(lines, start=digest.rows):  # in this loop, every call is paid for
                verified = verify_line(line, number, previous)
                if verified is None:
                    raise LedgerDamageError(path, number + 1, what_is_wrong(line))
                previous, kind_at = verified
                try:
                    if line.startswith(_WINDOW, kind_at):
                        data = line[kind_at + len(_WINDOW) : -TAIL_LENGTH]
                        sums, cut, _ = data.partition(_FIGURES)
                        add_window(orjson.loads(sums + b"}" if cut and not thorough else data))
                    elif line.startswith(_TELEMETRY, kind_at):
                        time = line[kind_at - TIME_LENGTH : kind_at].decode()
                        telemetry = orjson.loads(line[kind_at + len(_TELEMETRY) : -TAIL_LENGTH])
                        if thorough:
                            Telemetry.from_data(telemetry)
                        add_telemetry(time, telemetry)
                    else:
                        _add_row(digest, line, kind_at, (number, size, previous), thorough)
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    raise LedgerDamageError(path, number + 1, f"not a valid row: {error}") from error
                size += len(line) + 1
            digest.rows, digest.size = digest.rows + len(lines), size
            if lines:
                digest.last_time = split_line(lines[-1], kind_at).time
                digest.first_time = digest.first_time or split_line(lines[0], kind_begins(0)).time
            digest.torn_bytes = len(tail)
            if not may_be_torn(tail, digest.rows):
                reason = "the line has no end, and is not what a stopped writer leaves behind"
                raise LedgerDamageError(path, digest.rows + 1, reason)
    digest.last_hash = previous.decode()
    digest.wall_ns = max(digest.wall_ns, digest.windows.wall_ns, digest.telemetry.wall_ns)
    return stamp, digest


def _pieces(descriptor: int, size: int) -> Iterator[tuple[list[bytes], bytes]]:
    """Yield a file as far as it went when it was opened.

    Yields:
        Lines without their newlines, and what follows the last newline: empty but for the last time.
    """
    begun: list[bytes] = []
    while size > 0 and (chunk := os.read(descriptor, min(_CHUNK, size))):
        size -= len(chunk)
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            begun.append(chunk)
            continue
        begun.append(lines[0])
        lines[0] = b"".join(begun)
        begun = [lines.pop()]
        yield lines, b""
    yield [], b"".join(begun)


def _add_row(digest: Digest, line: bytes, kind_at: int, place: tuple[int, int, bytes], thorough: bool) -> None:
    """Add a verified line that is neither a phase window nor telemetry; it is kept where it stands."""
    parts = split_line(line, kind_at)
    if parts.kind not in KINDS:
        raise ValueError(f"no row is of the kind {parts.kind!r}")
    if thorough or parts.kind not in _LONG:
        row = KINDS[parts.kind].from_data(orjson.loads(parts.data))
        if isinstance(row, _AGED):
            digest.wall_ns = max(digest.wall_ns, row.wall_ns)
    number, offset, row_hash = place
    digest.places.append(Place(parts.kind, number, offset, len(line), parts.time, row_hash.decode()))
