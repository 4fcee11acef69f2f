"""What a run used in all its attempts: accelerators and their energy, hosts, and capacities of the physics engine.

The energy is computed from telemetry. Each journal has the samples that one process took of a device. They give
stretches of time whose energy is known, see :mod:`ledger_lab.ledger.sums`. The stretches of a device from all journals
of an attempt are merged on one time axis, so that no moment counts twice. The attempts add up: on one machine, an
attempt starts only when the previous one has ended, whatever a clock that was set says. Energy between two attempts
does not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ledger_lab.ledger import Attempt, CapacityUsed, Evaluation, JournalContent, Run, Telemetry
from ledger_lab.ledger.sums import FIGURES, DeviceSums, Figure, Stretch, TelemetrySums

Source = Literal["counter", "power"]

_MJ_PER_KWH = 3.6e9

_UNMETERED_SHARE, _UNMETERED_S = 0.1, 5.0
"""Largest unmetered part of an attempt whose energy still counts as known: this share, or this time [s]."""


@dataclass(frozen=True, kw_only=True)
class DeviceSummary:
    """Energy and use of one accelerator; means are over its samples. ``None`` if it has no such meter."""

    uuid: str
    energy_kwh: float | None
    """Energy of the whole device in :attr:`metered_s` [kWh], use by other programs included."""
    energy_source: Source | None
    """``counter``: the device's own counter; ``power``: integrated from samples, at least in part."""
    metered_s: float
    """Seconds of the attempts for which the energy is known."""
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
    """Energy of all accelerators of a run together."""

    kwh: float | None
    """Energy of all devices in all attempts [kWh], without hosts."""
    source: Source | None
    """``counter`` if all of it comes from the devices' own counters, else ``power``."""
    undefined_reason: str | None
    """Why :attr:`kwh` is ``None``; ``None`` if it is known."""
    attempt_kwh: list[float | None]
    """Energy of each attempt [kWh]; ``None`` if unknown."""
    mean_utilization: float | None
    """Mean over all samples of all devices, start-up included."""
    devices: list[DeviceSummary]


@dataclass(frozen=True)
class _Track:
    """Samples of one device in one journal."""

    attempt: int
    uuid: str
    sums: DeviceSums


def summarize_energy(run: Run) -> EnergySummary:
    """Compute the energy and use of a run's accelerators.

    Args:
        run: The run.

    Returns:
        The summary. The energy of the whole run is ``None`` if an attempt, or one of its devices, was not metered for
        most of the time.
    """
    tracks = _tracks({attempt.number: attempt.journals for attempt in run.attempts})
    devices = [
        _device([track for track in tracks if track.uuid == uuid])
        for uuid in dict.fromkeys(track.uuid for track in tracks)
    ]
    wanted = run.declared.world_size if run.declared.device.startswith("cuda") else 1
    alone = {
        attempt.number: _metered(
            attempt.wall_ns / 1e9, wanted, [track for track in tracks if track.attempt == attempt.number]
        )
        for attempt in run.attempts
    }
    reason = _undefined_reason(run, tracks, alone)
    kwh = None if reason else math.fsum(device.energy_kwh for device in devices if device.energy_kwh is not None)
    return EnergySummary(
        kwh=kwh,
        source=None if reason else _source(device.energy_source == "power" for device in devices),
        undefined_reason=reason,
        attempt_kwh=[kwh for kwh, _ in alone.values()],
        mean_utilization=_mean([track.sums.figures["utilization"] for track in tracks]),
        devices=devices,
    )


def evaluation_kwh(evaluation: Evaluation) -> float | None:
    """Return the energy of the accelerator that a stand-alone evaluation used [kWh]; ``None`` if unknown.

    Args:
        evaluation: The evaluation, which has one process.
    """
    kwh, _ = _metered(evaluation.wall_ns / 1e9, 1, _tracks({1: evaluation.journals}))
    return kwh


def _tracks(journals: Mapping[int, Sequence[JournalContent]]) -> list[_Track]:
    """Return the samples of each device in each journal of the attempts, which are given by their numbers."""
    tracks = [*_tracks_of(journals, apart=False)]
    if len({(track.attempt, track.uuid) for track in tracks}) < len(tracks):  # merging needs every sample by itself
        tracks = [*_tracks_of(journals, apart=True)]
    return tracks


def _tracks_of(journals: Mapping[int, Sequence[JournalContent]], *, apart: bool) -> Iterator[_Track]:
    """Yield the samples of each device in each journal; ``apart`` keeps adjacent stretches separate."""
    for attempt, own in journals.items():
        for journal in own:
            sums = TelemetrySums.of(journal.timed(Telemetry), apart=True) if apart else journal.telemetry
            for uuid, device in sums.devices.items():
                yield _Track(attempt, uuid, device)


def _merged(stretches: Iterable[Stretch]) -> tuple[float, int]:
    """Return the energy [mJ] and the length [ns] of the union of one device's stretches."""
    energy_mj: list[float] = []
    covered_ns = 0
    frontier_ns: int | None = None
    for stretch in sorted(stretches):
        start_ns = stretch.start_ns if frontier_ns is None else max(stretch.start_ns, frontier_ns)
        if stretch.end_ns > start_ns:
            new_ns = stretch.end_ns - start_ns
            energy_mj.append(stretch.energy_mj * new_ns / (stretch.end_ns - stretch.start_ns))
            covered_ns += new_ns
            frontier_ns = stretch.end_ns
    return math.fsum(energy_mj), covered_ns


def _metered(wall_s: float, wanted: int, tracks: Sequence[_Track]) -> tuple[float | None, str | None]:
    """Add up the energy of one attempt's devices.

    Args:
        wall_s: Time of the attempt [s].
        wanted: Number of devices that it used.
        tracks: Its samples.

    Returns:
        The energy [kWh], ``None`` if unknown; and what was not metered for most of the time. The latter is ``None`` if
        nothing, or if the attempt was short.
    """
    needed_s = wall_s - max(_UNMETERED_S, _UNMETERED_SHARE * wall_s)
    by_device: dict[str, list[Stretch]] = {}
    for track in tracks:
        by_device.setdefault(track.uuid, []).extend(track.sums.stretches)
    if needed_s > 0 and len(by_device) < wanted:
        return None, f"{len(by_device)} of {wanted} accelerators metered"
    energies_mj: list[float] = []
    for uuid, stretches in by_device.items():
        energy_mj, covered_ns = _merged(stretches)
        if covered_ns / 1e9 < needed_s:
            return None, f"the energy of {uuid} is known for {covered_ns / 1e9:.0f} of {wall_s:.0f} s"
        energies_mj += [energy_mj] if covered_ns else []
    # An attempt too short for two samples has no energy of its own, but is no gap in the energy of a longer run.
    known = len(energies_mj) >= wanted
    return math.fsum(energies_mj) / _MJ_PER_KWH if known else None, None


def _undefined_reason(
    run: Run, tracks: Sequence[_Track], alone: Mapping[int, tuple[float | None, str | None]]
) -> str | None:
    """Return why the energy of the whole run is unknown; ``None`` if it is known."""
    if not tracks:
        if not run.declared.device.startswith("cuda"):
            return "the run used no accelerator"
        journals = [journal for attempt in run.attempts for journal in attempt.journals]
        kept = any(journal.telemetry.wall_ns for journal in journals)
        return "no accelerator was metered" if kept else "no telemetry kept"
    gap = next((f"attempt {number}: {gap}" for number, (_, gap) in alone.items() if gap), None)
    if gap is None and not any(track.sums.stretches for track in tracks):
        return "the run was over before an accelerator was metered twice"
    return gap


def _device(tracks: Sequence[_Track]) -> DeviceSummary:
    """Summarize one device from all its samples."""
    by_attempt: dict[int, list[Stretch]] = {}
    for track in tracks:
        by_attempt.setdefault(track.attempt, []).extend(track.sums.stretches)
    merged = [_merged(stretches) for stretches in by_attempt.values() if stretches]
    integrated = [track.sums.counter is None for track in tracks if track.sums.stretches]
    figures = {name: [track.sums.figures[name] for track in tracks] for name in FIGURES}
    return DeviceSummary(
        uuid=tracks[0].uuid,
        energy_kwh=math.fsum(energy_mj for energy_mj, _ in merged) / _MJ_PER_KWH if merged else None,
        energy_source=_source(integrated) if merged else None,
        metered_s=sum(covered_ns for _, covered_ns in merged) / 1e9,
        mean_utilization=_mean(figures["utilization"]),
        peak_utilization=_peak(figures["utilization"]),
        mean_power_w=_mean(figures["power_w"]),
        peak_power_w=_peak(figures["power_w"]),
        mean_temperature_c=_mean(figures["temperature_c"]),
        peak_temperature_c=_peak(figures["temperature_c"]),
        mean_memory_gb=_mean(figures["memory_used_bytes"], 1e9),
        peak_memory_gb=_peak(figures["memory_used_bytes"], 1e9),
        mean_sm_clock_mhz=_mean(figures["sm_clock_mhz"]),
    )


def _source(integrated: Iterable[bool]) -> Source:
    """Return where energy is from; each value tells whether a part of it was integrated from samples of the power."""
    return "power" if any(integrated) else "counter"


def _mean(figures: Sequence[Figure], unit: float = 1.0) -> float | None:
    """Return the mean over all samples, divided by a unit; ``None`` without samples."""
    count = sum(figure.count for figure in figures)
    return math.fsum(figure.total for figure in figures) / count / unit if count else None


def _peak(figures: Sequence[Figure], unit: float = 1.0) -> float | None:
    """Return the largest sample, divided by a unit; ``None`` without samples."""
    peaks = [figure.peak for figure in figures if figure.peak is not None]
    return max(peaks) / unit if peaks else None


@dataclass(frozen=True, kw_only=True)
class HostSummary:
    """Use of the hosts by the processes of a run."""

    cpu_s_per_s: float
    """Number of busy cores: processor seconds of all processes per second of wall-clock time."""
    mean_busiest_thread: float | None
    """Share of one core that the busiest thread took, in [0, 1]; the mean over time. Near 1, the other threads wait for
    this thread."""
    peak_busiest_thread: float | None
    peak_memory_gb: float
    """Largest resident memory of all processes together [GB]; with several ranks, the sum of their peaks."""
    least_available_gb: float
    """Smallest available memory of a host [GB]."""


def summarize_host(run: Run) -> HostSummary | None:
    """Compute a run's use of its hosts.

    Args:
        run: The run.

    Returns:
        The summary; ``None`` if the hosts were not sampled.
    """
    observers = [[journal.telemetry.host for journal in attempt.journals] for attempt in run.attempts]
    # Several supervisors observe the same time of an attempt, so it counts once.
    wall_s = math.fsum(max((sums.watched_ns for sums in own), default=0) for own in observers) / 1e9
    seen = [sums for own in observers for sums in own if sums.samples]
    if not seen or not wall_s:
        return None
    threads_ns = sum(sums.threads_ns for sums in seen)
    busy_ns = math.fsum(sums.threads_busy_ns for sums in seen)
    return HostSummary(
        cpu_s_per_s=math.fsum(sums.cpu_s for sums in seen) / wall_s,
        mean_busiest_thread=busy_ns / threads_ns if threads_ns else None,
        peak_busiest_thread=max(
            (s.peak_busiest_thread for s in seen if s.peak_busiest_thread is not None), default=None
        ),
        peak_memory_gb=max(sum(sums.peak_memory_bytes for sums in own) for own in observers) / 1e9,
        least_available_gb=min(s.least_available_bytes for s in seen if s.least_available_bytes is not None) / 1e9,
    )


@dataclass(frozen=True, kw_only=True)
class RoomSummary:
    """Largest use of the physics engine's capacities by the simulation of a training, held-out slots included."""

    constraints: int
    """Largest number of constraint rows in an environment."""
    constraint_capacity: int
    """Capacity for constraint rows per environment (``njmax``)."""
    contacts_per_env: float
    """Largest number of contacts, or of close pairs of shapes, of all environments together, divided by the number of
    environments."""
    contact_capacity_per_env: float
    """Capacity for contacts, divided by the environments that share it."""


def summarize_room(attempts: Iterable[Attempt]) -> RoomSummary | None:
    """Compute the largest use of the physics engine's capacities in a training; stand-alone evaluations don't count.

    Args:
        attempts: Attempts of one run.

    Returns:
        The summary of the attempts that ended by themselves. ``None`` if none did, if no policy was scored, or if the
        engine has no capacities.
    """
    used = [row for attempt in attempts for row in attempt.of(CapacityUsed)]
    if not used:
        return None
    return RoomSummary(
        constraints=max(row.constraints for row in used),
        constraint_capacity=used[-1].constraint_capacity,
        contacts_per_env=max(row.contacts / row.slots for row in used),
        contact_capacity_per_env=used[-1].contact_capacity / used[-1].slots,
    )
