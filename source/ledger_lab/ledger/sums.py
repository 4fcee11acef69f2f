"""Sums of the phase windows and of the telemetry of a journal, which readers keep in place of these rows.

The energy between two samples is the difference of the device's energy counter. Without a counter, it is the mean of
the two powers times the time between them. Adjacent stretches are merged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple, Self

from ledger_lab.ledger.rows import PhaseWindow
from ledger_lab.ledger.telemetry import DeviceSample, HostSample, Telemetry

MAX_PLAUSIBLE_W = 10_000.0
"""More power than any accelerator draws [W]. If an energy counter rises faster, it was reset, and the difference is not
used."""

_COUNTER_LAG_NS = 1_000_000_000
"""Longest time between two updates of an energy counter [ns]. An update adds all energy since the last update."""

_LONGEST_GAP_NS = 10_000_000_000
"""Longest time between two samples over which power is interpolated [ns]; a counter has no such limit."""

FIGURES = ("utilization", "power_w", "temperature_c", "memory_used_bytes", "sm_clock_mhz")
"""Figures of a device that have a mean and a peak."""

_figures_of = attrgetter(*FIGURES)


@dataclass(kw_only=True, slots=True)
class WindowSums:
    """Sums of the phase windows of a journal."""

    count: int = 0
    phase_ns: dict[str, int] = field(default_factory=dict)
    """Nanoseconds per phase."""
    env_steps: int = 0
    """Environment steps of all processes."""
    iterations: int = 0
    """Iterations completed."""
    wall_ns: int = 0
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


class Stretch(NamedTuple):
    """A stretch of time with a known energy."""

    start_ns: int
    """Start since the epoch [ns], by the clock at the journal's first telemetry; later steps of the clock have no
    effect."""
    end_ns: int
    energy_mj: float


@dataclass(slots=True)
class Figure:
    """One figure over all samples that have it."""

    count: int = 0
    total: float = 0.0
    peak: float | None = None


@dataclass(kw_only=True, slots=True)
class HostSums:
    """Use of the host by the processes of an attempt."""

    samples: int = 0
    watched_ns: int = 0
    """Age of the attempt at the last sample [ns]; the samples cover all time until then."""
    cpu_s: float = 0.0
    threads_ns: int = 0
    """Time covered by samples with a busiest thread [ns]."""
    threads_busy_ns: float = 0.0
    """The same, times the share of a core that the busiest thread used [ns]."""
    peak_busiest_thread: float | None = None
    peak_memory_bytes: int = 0
    least_available_bytes: int | None = None

    def add(self, wall_ns: int, sample: HostSample) -> None:
        """Add a sample."""
        passed_ns = wall_ns - self.watched_ns
        self.samples += 1
        self.watched_ns = wall_ns
        self.cpu_s += sample.cpu_s
        share = sample.busiest_thread
        if share is not None:
            self.threads_ns += passed_ns
            self.threads_busy_ns += passed_ns * share
            if self.peak_busiest_thread is None or share > self.peak_busiest_thread:
                self.peak_busiest_thread = share
        if sample.memory_bytes > self.peak_memory_bytes:
            self.peak_memory_bytes = sample.memory_bytes
        available = sample.available_bytes
        if self.least_available_bytes is None or available < self.least_available_bytes:
            self.least_available_bytes = available


@dataclass(kw_only=True, slots=True)
class DeviceSums:
    """Telemetry sums of one accelerator, from one journal."""

    figures: dict[str, Figure] = field(default_factory=lambda: {name: Figure() for name in FIGURES})
    """By the names of :data:`FIGURES`."""
    counter: tuple[int, int] | None = None
    """Time [ns] and value [mJ] of the last sample with a counter; ``None`` if the device has none."""
    _power: tuple[int, float] | None = None
    """Time [ns] and value [W] of the last sample with a power, as long as there was no counter."""
    stretches: list[Stretch] = field(default_factory=list)
    """Stretches with a known energy, from the counter if the device has one, else from its power."""

    def add(self, began_ns: int, wall_ns: int, sample: DeviceSample, *, apart: bool = False) -> None:
        """Add a sample.

        Args:
            began_ns: Start of the attempt since the epoch [ns].
            wall_ns: Age of the attempt at the sample [ns].
            sample: The sample.
            apart: Whether adjacent stretches are kept apart.
        """
        at_ns = began_ns + wall_ns
        values: tuple[Any, ...] = _figures_of(sample)
        for figure, value in zip(self.figures.values(), values, strict=True):
            if value is not None:
                figure.count += 1
                figure.total += value
                if figure.peak is None or value > figure.peak:
                    figure.peak = value
        counter, before = sample.energy_mj, sample.energy_before
        had_none = self.counter is None
        if had_none and before is not None and before.wall_ns < wall_ns:
            self.counter = (began_ns + before.wall_ns, before.energy_mj)
        if had_none and (self.counter or counter) is not None:
            self.stretches.clear()
        if counter is not None:
            if self.counter is not None:
                start_ns, counted = self.counter
                # A counter that restarted has counted this much since.
                energy_mj: float = counter - counted if counter >= counted else counter
                # nanoseconds times watts are nanojoules
                if energy_mj * 1e6 <= (at_ns - start_ns + _COUNTER_LAG_NS) * MAX_PLAUSIBLE_W:
                    _append(self.stretches, start_ns, at_ns, energy_mj, apart)
            self.counter = (at_ns, counter)
        elif sample.power_w is not None and self.counter is None:
            if self._power is not None:
                start_ns, power_w = self._power
                if at_ns - start_ns <= _LONGEST_GAP_NS:
                    energy_mj = (at_ns - start_ns) * (power_w + sample.power_w) / 2 / 1e6
                    _append(self.stretches, start_ns, at_ns, energy_mj, apart)
            self._power = (at_ns, sample.power_w)


def _append(stretches: list[Stretch], start_ns: int, end_ns: int, energy_mj: float, apart: bool) -> None:
    """Add a stretch; merge it with the last stretch if they are adjacent."""
    if stretches and stretches[-1].end_ns == start_ns and not apart:
        before = stretches.pop()
        start_ns, energy_mj = before.start_ns, before.energy_mj + energy_mj
    stretches.append(Stretch(start_ns, end_ns, energy_mj))


@dataclass(kw_only=True, slots=True)
class TelemetrySums:
    """Sums of the telemetry of a journal."""

    count: int = 0
    began_ns: int | None = None
    """Start of the attempt since the epoch [ns], by the clock at its first telemetry."""
    wall_ns: int = 0
    """Age of the attempt at the last sample [ns]."""
    host: HostSums = field(default_factory=HostSums)
    devices: dict[str, DeviceSums] = field(default_factory=dict)
    """Sums by UUID, in the order of appearance."""

    def add(self, time: datetime, telemetry: Telemetry, *, apart: bool = False) -> None:
        """Add a row.

        Args:
            time: When it was written.
            telemetry: The row.
            apart: Whether adjacent stretches are kept apart.
        """
        wall_ns = telemetry.wall_ns
        if self.began_ns is None:
            self.began_ns = round(time.timestamp() * 1e3) * 1_000_000 - wall_ns
        self.count += 1
        if wall_ns > self.wall_ns:
            self.wall_ns = wall_ns
        if telemetry.host is not None:
            self.host.add(wall_ns, telemetry.host)
        for sample in telemetry.devices:
            device = self.devices.get(sample.uuid)
            if device is None:
                device = self.devices[sample.uuid] = DeviceSums()
            device.add(self.began_ns, wall_ns, sample, apart=apart)

    @classmethod
    def of(cls, rows: Iterable[tuple[Telemetry, datetime]], *, apart: bool = False) -> Self:
        """Sum up rows.

        Args:
            rows: Rows of telemetry, in order, with the times at which they were written.
            apart: Whether adjacent stretches are kept apart.
        """
        sums = cls()
        for row, time in rows:
            sums.add(time, row, apart=apart)
        return sums
