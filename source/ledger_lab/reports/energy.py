"""What the accelerators of a run drew and did, from the telemetry of all its attempts.

Each journal's samples are one observer's view of a device. A stretch of time between two samples has an energy: the
difference of the device's own counter, or, where it has none, the mean of the power at both ends times its length.
Stretches of one device are put together on one axis of time, so that what several processes or attempts saw counts
once. What was drawn between two attempts is not the run's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ledger_lab.ledger import Attempt, DeviceSample, Run, Telemetry

Source = Literal["counter", "power"]

_MJ_PER_KWH = 3.6e9

_NOT_DRAWN_W, _COUNTER_LAG_NS = 10_000.0, 1_000_000_000
"""More than any accelerator draws: a counter that rises faster has been set, and its difference is no energy. It may
rise by what was drawn in this time at once, because it is brought up to date now and then."""

_LONGEST_GAP_NS = 10_000_000_000
"""Between samples further apart than this the power is anybody's guess; a counter goes on counting."""

_UNMETERED_SHARE, _UNMETERED_S = 0.1, 5.0
"""How much of an attempt may lie before its first sample, after its last, or in gaps: this share, or this time [s]."""


@dataclass(frozen=True, kw_only=True)
class DeviceSummary:
    """What one accelerator drew and did; means are over its samples. ``None`` where it has no such meter."""

    uuid: str
    energy_kwh: float | None
    """What the whole device drew in :attr:`metered_s` [kWh], whoever else used it."""
    energy_source: Source | None
    """``counter``: the device's own; ``power``: integrated from samples, at least for a part."""
    metered_s: float
    """Seconds of the attempts that the energy is known for."""
    mean_utilization: float | None
    peak_utilization: float | None
    mean_power_w: float | None
    peak_power_w: float | None
    mean_temperature_c: float | None
    peak_temperature_c: float | None
    mean_memory_gb: float | None
    peak_memory_gb: float | None
    mean_sm_clock_mhz: float | None


@dataclass(frozen=True, kw_only=True)
class EnergySummary:
    """What all accelerators of a run drew together."""

    kwh: float | None
    """Of all devices in all attempts [kWh]; hosts are not in it."""
    source: Source | None
    """``counter`` if every device counted by itself all the time, else ``power``."""
    undefined_reason: str | None
    """Why there is no such figure; ``None`` where there is one."""
    mean_utilization: float | None
    """Mean over all samples of all devices, start-up included."""
    devices: list[DeviceSummary]


@dataclass(frozen=True)
class _Track:
    """What one journal saw of one device."""

    attempt: int
    uuid: str
    samples: tuple[tuple[int, DeviceSample], ...]
    """With the time since the epoch [ns] as far as the journal's first row knew it: later steps of the clock don't
    matter."""


@dataclass(frozen=True)
class _Stretch:
    """The time between two samples."""

    start_ns: int
    end_ns: int
    energy_mj: float
    source: Source


def summarize_energy(run: Run) -> EnergySummary:
    """Work out what the accelerators of a run drew and did.

    Args:
        run: The run.

    Returns:
        The summary. There is no energy of the run as a whole where an attempt, or one of its devices, was not metered
        for most of the time.
    """
    tracks = [track for attempt in run.attempts for track in _tracks(attempt)]
    devices = [
        _device([track for track in tracks if track.uuid == uuid])
        for uuid in dict.fromkeys(track.uuid for track in tracks)
    ]
    reason = _undefined_reason(run, tracks)
    sources = {device.energy_source for device in devices}
    kwh = None if reason else math.fsum(device.energy_kwh or 0.0 for device in devices)
    used = [sample.utilization for track in tracks for _, sample in track.samples if sample.utilization is not None]
    return EnergySummary(
        kwh=kwh,
        source=None if reason else ("power" if "power" in sources else "counter"),
        undefined_reason=reason,
        mean_utilization=_mean(used),
        devices=devices,
    )


def _tracks(attempt: Attempt) -> Iterator[_Track]:
    """Return what each journal of an attempt saw of each device."""
    for journal in attempt.journals:
        began_ns: int | None = None
        seen: dict[str, list[tuple[int, DeviceSample]]] = {}
        for row, time in zip(journal.rows, journal.times, strict=True):
            if isinstance(row, Telemetry):
                if began_ns is None:
                    began_ns = round(time.timestamp() * 1e3) * 1_000_000 - row.wall_ns
                for sample in row.devices:
                    seen.setdefault(sample.uuid, []).append((began_ns + row.wall_ns, sample))
        for uuid, samples in seen.items():
            yield _Track(attempt.number, uuid, tuple(samples))


def _stretches(track: _Track) -> list[_Stretch]:
    """Return the stretches whose energy is known: by the counter if the device has one, else by its power."""
    counted = [(at_ns, s.energy_mj) for at_ns, s in track.samples if s.energy_mj is not None]
    if counted:
        known = [
            _Stretch(start_ns, end_ns, _counted_mj(before_mj, after_mj), "counter")
            for (start_ns, before_mj), (end_ns, after_mj) in pairwise(counted)
        ]
        # nanoseconds times watts are nanojoules
        return [s for s in known if s.energy_mj * 1e6 <= (s.end_ns - s.start_ns + _COUNTER_LAG_NS) * _NOT_DRAWN_W]
    powered = [(at_ns, s.power_w) for at_ns, s in track.samples if s.power_w is not None]
    return [
        _Stretch(start_ns, end_ns, (end_ns - start_ns) * (before_w + after_w) / 2 / 1e6, "power")
        for (start_ns, before_w), (end_ns, after_w) in pairwise(powered)
        if end_ns - start_ns <= _LONGEST_GAP_NS
    ]


def _counted_mj(before_mj: int, after_mj: int) -> int:
    """Return what a counter counted; if it started over in between, what it counted since then."""
    return after_mj - before_mj if after_mj >= before_mj else after_mj


def _merged(stretches: Iterable[_Stretch]) -> tuple[float, int]:
    """Return energy [mJ] and length [ns] of what the stretches of one device cover together, each moment once."""
    energy_mj: list[float] = []
    covered_ns = 0
    frontier_ns: int | None = None
    for stretch in sorted(stretches, key=lambda s: (s.start_ns, s.end_ns)):
        start_ns = stretch.start_ns if frontier_ns is None else max(stretch.start_ns, frontier_ns)
        if stretch.end_ns > start_ns:
            new_ns = stretch.end_ns - start_ns
            energy_mj.append(stretch.energy_mj * new_ns / (stretch.end_ns - stretch.start_ns))
            covered_ns += new_ns
            frontier_ns = stretch.end_ns
    return math.fsum(energy_mj), covered_ns


def _undefined_reason(run: Run, tracks: Sequence[_Track]) -> str | None:
    """Return why the energy of the whole run is not known."""
    on_gpu = run.declared.device.startswith("cuda")
    if not tracks:
        return "no accelerator was metered" if on_gpu else "the run used no accelerator"
    for attempt in run.attempts:
        wall_s = attempt.wall_ns / 1e9
        needed_s = wall_s - max(_UNMETERED_S, _UNMETERED_SHARE * wall_s)
        own = [track for track in tracks if track.attempt == attempt.number]
        uuids = dict.fromkeys(track.uuid for track in own)
        wanted = run.declared.world_size if on_gpu else 1
        if needed_s > 0 and len(uuids) < wanted:
            return f"attempt {attempt.number}: {len(uuids)} of {wanted} accelerators metered"
        for uuid in uuids:
            _, covered_ns = _merged(s for track in own if track.uuid == uuid for s in _stretches(track))
            if covered_ns / 1e9 < needed_s:
                share = f"{covered_ns / 1e9:.0f} of {wall_s:.0f} s"
                return f"attempt {attempt.number}: the energy of {uuid} is known for {share}"
    return None


def _device(tracks: Sequence[_Track]) -> DeviceSummary:
    """Summarize one device from all that was seen of it."""
    stretches = [stretch for track in tracks for stretch in _stretches(track)]
    energy_mj, covered_ns = _merged(stretches)
    sources = {stretch.source for stretch in stretches}
    samples = [sample for track in tracks for _, sample in track.samples]

    def figures(take: Callable[[DeviceSample], float | None]) -> list[float]:
        return [value for sample in samples if (value := take(sample)) is not None]

    utilization, power = figures(lambda s: s.utilization), figures(lambda s: s.power_w)
    temperature, clock = figures(lambda s: s.temperature_c), figures(lambda s: s.sm_clock_mhz)
    memory = [used_bytes / 1e9 for used_bytes in figures(lambda s: s.memory_used_bytes)]
    return DeviceSummary(
        uuid=tracks[0].uuid,
        energy_kwh=energy_mj / _MJ_PER_KWH if stretches else None,
        energy_source=None if not stretches else ("power" if "power" in sources else "counter"),
        metered_s=covered_ns / 1e9,
        mean_utilization=_mean(utilization),
        peak_utilization=max(utilization, default=None),
        mean_power_w=_mean(power),
        peak_power_w=max(power, default=None),
        mean_temperature_c=_mean(temperature),
        peak_temperature_c=max(temperature, default=None),
        mean_memory_gb=_mean(memory),
        peak_memory_gb=max(memory, default=None),
        mean_sm_clock_mhz=_mean(clock),
    )


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean, ``None`` of nothing."""
    return math.fsum(values) / len(values) if values else None
