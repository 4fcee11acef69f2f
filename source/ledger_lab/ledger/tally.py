"""Sums of the phase windows and the telemetry of a journal, and the row that holds them.

A journal can have millions of these rows. A tally is a row with their sums so far, hash-chained like every other row.
Readers therefore add up only the rows after the last tally. ``scripts/verify_ledger.py`` adds up all rows, and finds a
tally that differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Self

import msgspec

from ledger_lab.ledger.encoding import TAIL_LENGTH, TIME_LENGTH, kind_and_data, kind_begins
from ledger_lab.ledger.row import Count, Row, checker
from ledger_lab.ledger.rows import PhaseWindow
from ledger_lab.ledger.telemetry import Telemetry
from ledger_lab.ledger.telemetry_sums import TelemetrySums

TALLIED = (PhaseWindow, Telemetry)
"""Kinds that a tally covers."""

_WINDOW, _TELEMETRY = TALLIED_BEGIN = tuple(kind_and_data(kind.__name__) for kind in TALLIED)
"""Bytes between the time and the data of these rows, see :func:`ledger_lab.ledger.encoding.kind_and_data`."""


_check_window, _check_telemetry = map(checker, TALLIED)

_LEAST_ROWS, _LEAST_RATIO = 128, 16
"""A tally is due after at least this many rows, and this many times the size of the last tally. With many accelerators,
a tally is long."""


@dataclass(frozen=True, kw_only=True)
class Tally(Row):
    """Sums of all phase windows and telemetry before it."""

    DURABLE: ClassVar[bool] = False

    windows: dict[str, Any]
    """The fields of :class:`WindowSums`."""
    telemetry: dict[str, Any]
    """The fields of :class:`ledger_lab.ledger.telemetry_sums.TelemetrySums`."""


@dataclass(kw_only=True, slots=True)
class WindowSums:
    """Sums of the phase windows of a journal."""

    count: Count = 0
    phase_ns: dict[str, Count] = field(default_factory=dict)
    """Nanoseconds per phase."""
    env_steps: Count = 0
    """Environment steps of all processes."""
    iterations: Count = 0
    """Iterations completed."""
    wall_ns: Count = 0
    """Age of the process at the end of its last window [ns]."""

    def add(self, window: PhaseWindow) -> None:
        """Add a window."""
        self.count += 1
        phase_ns = self.phase_ns
        for phase, spent_ns in window.phase_ns.items():
            phase_ns[phase] = phase_ns.get(phase, 0) + spent_ns
        if window.env_steps > self.env_steps:
            self.env_steps = window.env_steps
        if (window.iteration or 0) > self.iterations:
            self.iterations = window.iteration or 0
        if window.wall_ns > self.wall_ns:
            self.wall_ns = window.wall_ns


@dataclass(kw_only=True, slots=True)
class Sums:
    """Sums of the phase windows and the telemetry of a journal."""

    windows: WindowSums = field(default_factory=WindowSums)
    telemetry: TelemetrySums = field(default_factory=TelemetrySums)

    @property
    def wall_ns(self) -> int:
        """Age of the attempt at the last of these rows [ns]."""
        return max(self.windows.wall_ns, self.telemetry.wall_ns)

    def add(self, line: bytes, kind_at: int) -> None:
        """Add a verified line; lines of other kinds are ignored.

        Args:
            line: The line, newline included.
            kind_at: Offset of its kind [B].

        Raises:
            ValueError: If it is not a valid row.
        """
        if line.startswith(_WINDOW, kind_at):
            self.windows.add(_check_window(line[kind_at + len(_WINDOW) : -TAIL_LENGTH]))
        elif line.startswith(_TELEMETRY, kind_at):
            time = line[kind_at - TIME_LENGTH : kind_at].decode()
            self.telemetry.add(time, _check_telemetry(line[kind_at + len(_TELEMETRY) : -TAIL_LENGTH]))

    def tally(self) -> Tally:
        """Return the sums as a row."""
        return Tally(**asdict(self))

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Build the sums from their JSON value, or the fields of a tally.

        Raises:
            ValueError: If a field is missing or unknown, or a value has the wrong type or range.
        """
        for name, sums in (("windows", WindowSums), ("telemetry", TelemetrySums)):
            if set(data[name]) != {each.name for each in fields(sums)}:
                raise ValueError(f"the fields of {name} are {sorted(data[name])}")
        return msgspec.convert(data, cls)


@dataclass(frozen=True)
class Tallied:
    """The last tally of a journal, and its position."""

    rows: int = 0
    """Number of rows up to and including the last tally."""
    size: int = 0
    """Size of these rows [B]."""
    length: int = 0
    """Size of that tally [B]."""
    tally: Tally | None = None

    def is_due(self, rows: int, size: int) -> bool:
        """Tell whether the next tally is due in a journal of so many rows and bytes."""
        return rows - self.rows >= _LEAST_ROWS and size - self.size >= _LEAST_RATIO * self.length

    def next(self, lines: Iterable[bytes]) -> Tally:
        """Return the next tally of a journal."""
        sums = Sums() if self.tally is None else Sums.from_data(self.tally.to_data())
        for number, line in enumerate(lines, start=self.rows):
            sums.add(line, kind_begins(number))
        return sums.tally()
