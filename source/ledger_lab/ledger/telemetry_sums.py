"""Sums of the telemetry of a journal: means and peaks, and energy over stretches of time.

The energy between two samples is the difference of the device's energy counter. Without a counter, it is the mean of
the two powers times the time between them. Adjacent stretches are merged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Self

MAX_PLAUSIBLE_W = 10_000.0
"""More than any accelerator draws [W]. If a counter rises faster, it was reset, and its difference is not an energy."""

_COUNTER_LAG_NS = 1_000_000_000
"""A counter is updated only now and then, so it may rise at once by the energy of this time [ns]."""

_LONGEST_GAP_NS = 10_000_000_000
"""Longest time between two samples over which power is interpolated [ns]; a counter has no such limit."""


class Stretch(NamedTuple):
    """A stretch of time with a known energy."""

    start_ns: int
    """Start since the epoch [ns], by the clock at the journal's first telemetry; later steps of the clock have no
    effect."""
    end_ns: int
    energy_mj: float


@dataclass(kw_only=True, slots=True)
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

    def add(self, wall_ns: int, sample: dict[str, Any]) -> None:
        """Add the fields of a sample."""
        passed_ns = wall_ns - self.watched_ns
        self.samples += 1
        self.watched_ns = wall_ns
        self.cpu_s += sample["cpu_s"]
        share = sample["busiest_thread"]
        if share is not None:
            self.threads_ns += passed_ns
            self.threads_busy_ns += passed_ns * share
            if self.peak_busiest_thread is None or share > self.peak_busiest_thread:
                self.peak_busiest_thread = share
        if sample["memory_bytes"] > self.peak_memory_bytes:
            self.peak_memory_bytes = sample["memory_bytes"]
        available = sample["available_bytes"]
        if self.least_available_bytes is None or available < self.least_available_bytes:
            self.least_available_bytes = available


FIGURES = ("utilization", "power_w", "temperature_c", "memory_used_bytes", "sm_clock_mhz")
"""Figures of a device that have a mean and a peak."""


@dataclass(kw_only=True, slots=True)
class DeviceSums:
    """Telemetry sums of one accelerator, from one journal."""

    figures: dict[str, Figure] = field(default_factory=lambda: {name: Figure() for name in FIGURES})
    """By the names of :data:`FIGURES`."""
    counter: tuple[int, int] | None = None
    """Time [ns] and value [mJ] of the last sample with a counter; ``None`` if the device has none."""
    power: tuple[int, float] | None = None
    """Time [ns] and value [W] of the last sample with a power, as long as there was no counter."""
    counted: list[list[float]] = field(default_factory=list)
    powered: list[list[float]] = field(default_factory=list)

    @property
    def stretches(self) -> list[Stretch]:
        """Stretches with a known energy, from the counter if the device has one, else from its power."""
        known = self.powered if self.counter is None else self.counted
        return [Stretch(int(start_ns), int(end_ns), energy_mj) for start_ns, end_ns, energy_mj in known]

    def add(self, at_ns: int, sample: dict[str, Any], *, apart: bool = False) -> None:
        """Add the fields of a sample.

        Args:
            at_ns: Time of the sample since the epoch [ns].
            sample: The fields.
            apart: Whether adjacent stretches are kept apart.
        """
        for name, figure in self.figures.items():
            value = sample[name]
            if value is not None:
                figure.count += 1
                figure.total += value
                if figure.peak is None or value > figure.peak:
                    figure.peak = value
        counter = sample["energy_mj"]
        if counter is not None:
            if self.counter is not None:
                start_ns, counted = self.counter
                energy_mj = (
                    counter - counted if counter >= counted else counter
                )  # or what it counted since it restarted
                # nanoseconds times watts are nanojoules
                if energy_mj * 1e6 <= (at_ns - start_ns + _COUNTER_LAG_NS) * MAX_PLAUSIBLE_W:
                    _append(self.counted, start_ns, at_ns, energy_mj, apart)
            self.counter = (at_ns, counter)
        elif sample["power_w"] is not None and self.counter is None:
            if self.power is not None:
                start_ns, power_w = self.power
                if at_ns - start_ns <= _LONGEST_GAP_NS:
                    energy_mj = (at_ns - start_ns) * (power_w + sample["power_w"]) / 2 / 1e6
                    _append(self.powered, start_ns, at_ns, energy_mj, apart)
            self.power = (at_ns, sample["power_w"])

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Build the sums from their JSON value."""
        figures = {name: Figure(**figure) for name, figure in data["figures"].items()}
        lasts = {name: None if data[name] is None else tuple(data[name]) for name in ("counter", "power")}
        return cls(**{**data, **lasts, "figures": figures})


def _append(stretches: list[list[float]], start_ns: int, end_ns: int, energy_mj: float, apart: bool) -> None:
    """Add a stretch; merge it with the last one if they are adjacent."""
    if stretches and stretches[-1][1] == start_ns and not apart:
        stretches[-1][1] = end_ns
        stretches[-1][2] += energy_mj
    else:
        stretches.append([start_ns, end_ns, energy_mj])


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

    def add(self, time: str, telemetry: dict[str, Any], *, apart: bool = False) -> None:
        """Add the fields of a row.

        Args:
            time: When it was written, ISO 8601.
            telemetry: The fields.
            apart: Whether adjacent stretches are kept apart.
        """
        wall_ns = telemetry["wall_ns"]
        if self.began_ns is None:
            self.began_ns = round(datetime.fromisoformat(time).timestamp() * 1e3) * 1_000_000 - wall_ns
        self.count += 1
        if wall_ns > self.wall_ns:
            self.wall_ns = wall_ns
        if telemetry["host"] is not None:
            self.host.add(wall_ns, telemetry["host"])
        for sample in telemetry["devices"]:
            device = self.devices.get(sample["uuid"])
            if device is None:
                device = self.devices[sample["uuid"]] = DeviceSums()
            device.add(self.began_ns + wall_ns, sample, apart=apart)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Build the sums from their JSON value."""
        devices = {uuid: DeviceSums.from_data(device) for uuid, device in data["devices"].items()}
        return cls(**{**data, "host": HostSums(**data["host"]), "devices": devices})

    @classmethod
    def of(cls, rows: Iterable[tuple[Any, datetime]], *, apart: bool = False) -> Self:
        """Sum up rows.

        Args:
            rows: Rows of telemetry, in order, with the times at which they were written.
            apart: Whether adjacent stretches are kept apart.
        """
        sums = cls()
        for row, time in rows:
            sums.add(time.isoformat(), row.to_data(), apart=apart)
        return sums
