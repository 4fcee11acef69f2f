"""Curves over the wall-clock time of a run, thinned out for display."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ledger_lab.ledger import DeviceSample, Run, Telemetry
from ledger_lab.reports.facts import attempt_starts_s, sampled

_DIGITS = 5

DEVICE_METERS: dict[str, tuple[str, Callable[[DeviceSample], float | None]]] = {
    "utilization": ("%", lambda s: None if s.utilization is None else 100 * s.utilization),
    "memory": ("GB", lambda s: None if s.memory_used_bytes is None else s.memory_used_bytes / 1e9),
    "power": ("W", lambda s: s.power_w),
    "temperature": ("°C", lambda s: s.temperature_c),
    "clock": ("MHz", lambda s: s.sm_clock_mhz),
}
"""Meters of an accelerator that are drawn, with their units."""

_ORDER = ("utilization", "power", "memory", "temperature", "clock", "CPU", "busiest thread", "memory left")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A figure over time. In a thinned-out curve, each point is the mean of consecutive samples."""

    t: list[float]
    """Wall-clock time of the run, over all attempts [s]."""
    env_steps: list[int]
    """Environment steps by that time; empty if they were not counted."""
    y: list[float]
    samples: int
    """Number of samples behind the curve."""


@dataclass(frozen=True, kw_only=True)
class TelemetrySeries(Curve):
    """A meter of the host or of an accelerator over time."""

    owner: str
    """``host``, or the name of the accelerator."""
    meter: str
    unit: str
    mean: float
    """Mean of all samples."""
    highest: float
    """Largest of all samples."""


def return_curve(run: Run, points: int) -> Curve | None:
    """Return the mean return of training episodes over time.

    Args:
        run: The run.
        points: Largest number of points of the curve.

    Returns:
        The curve; ``None`` if no return was measured.
    """
    starts = attempt_starts_s(run)
    samples = [
        (starts[attempt.number] + window.wall_ns / 1e9, window.env_steps, window.figures["mean_return"])
        for attempt, window in run.windows
        if "mean_return" in window.figures
    ]
    if not samples:
        return None
    groups = _groups(samples, points)
    return Curve(
        t=[_short(fmean(t for t, _, _ in group)) for group in groups],
        env_steps=[round(fmean(steps for _, steps, _ in group)) for group in groups],
        y=[_short(math.fsum(y / len(group) for _, _, y in group)) for group in groups],  # a sum of y may overflow
        samples=len(samples),
    )


def telemetry_series(run: Run, points: int) -> list[TelemetrySeries]:
    """Return the measured load of host and accelerators over time.

    Args:
        run: The run.
        points: Largest number of points of each curve.

    Returns:
        One series per meter with at least one sample, accelerators first.
    """
    starts = attempt_starts_s(run)
    samples: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    names: dict[str, str] = {}
    for attempt in run.attempts:
        for row, passed_s in sampled(attempt):
            at_s = starts[attempt.number] + row.wall_ns / 1e9
            for meter, unit, value in _host_figures(row, passed_s):
                samples.setdefault(("host", meter, unit), []).append((at_s, value))
            for device in row.devices:
                name = names.setdefault(device.uuid, f"device {len(names)} ({device.uuid[:12]})")
                for meter, (unit, read) in DEVICE_METERS.items():
                    reading = read(device)
                    if reading is not None:
                        samples.setdefault((name, meter, unit), []).append((at_s, float(reading)))
    series = [_series(*key, values, points) for key, values in samples.items()]
    return sorted(series, key=lambda each: (each.owner == "host", _ORDER.index(each.meter)))


def _host_figures(row: Telemetry, passed_s: float | None) -> list[tuple[str, str, float]]:
    """Return the host's figures of one sample, with their units."""
    host = row.host
    if host is None:
        return []
    figures = [("memory", "GB", host.memory_bytes / 1e9), ("memory left", "GB", host.available_bytes / 1e9)]
    if passed_s:  # processor seconds mean nothing without the interval that they were counted over
        figures.insert(0, ("CPU", "cores", host.cpu_s / passed_s))
    if host.busiest_thread is not None:
        figures.append(("busiest thread", "%", 100 * host.busiest_thread))
    return figures


def _series(owner: str, meter: str, unit: str, values: Sequence[tuple[float, float]], points: int) -> TelemetrySeries:
    """Thin out one meter."""
    groups = _groups(values, points)
    return TelemetrySeries(
        owner=owner,
        meter=meter,
        unit=unit,
        t=[_short(fmean(t for t, _ in group)) for group in groups],
        env_steps=[],
        y=[_short(fmean(y for _, y in group)) for group in groups],
        samples=len(values),
        mean=_short(fmean(y for _, y in values)),
        highest=_short(max(y for _, y in values)),
    )


def _groups[Sample](samples: Sequence[Sample], most: int) -> list[Sequence[Sample]]:
    """Split samples, in order, into at most this many groups of equal size; the last group may be smaller."""
    size = -(-len(samples) // most)
    return [samples[start : start + size] for start in range(0, len(samples), size)]


def _short(value: float) -> float:
    """Drop digits that a screen does not show."""
    return float(f"{value:.{_DIGITS}g}")
