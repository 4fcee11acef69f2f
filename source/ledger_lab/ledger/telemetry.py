"""Rows of telemetry: samples of the host and of the accelerators while an attempt or an evaluation runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ledger_lab.ledger.row import Amount, Count, Measured, Positive, Row, RunId, Share


@dataclass(frozen=True, kw_only=True)
class TelemetryStarted(Row):
    """First row of a journal with the telemetry of one process of an attempt, or of a stand-alone evaluation.

    All other rows are in other journals, so this journal need not be kept.
    """

    run_id: RunId
    attempt: Positive | None
    """``None`` for a stand-alone evaluation."""
    rank: Count
    """Rank of the watched process."""


@dataclass(frozen=True, kw_only=True)
class EnergyReading:
    """The energy counter of an accelerator at one time."""

    wall_ns: Count
    """Age of the attempt [ns]."""
    energy_mj: Count
    """Energy counter of the device [mJ]; only differences are meaningful."""


@dataclass(frozen=True, kw_only=True)
class DeviceSample:
    """Readings of one accelerator at one time; ``None`` if it has no such meter."""

    uuid: str
    utilization: Share | None
    """Share of the driver's last averaging period (at most one second) in which a kernel ran, in [0, 1]."""
    memory_used_bytes: Count | None
    """Memory in use on the whole device."""
    power_w: Amount | None
    energy_mj: Count | None
    """Energy counter of the device [mJ]; only differences are meaningful."""
    temperature_c: Measured | None
    sm_clock_mhz: Count | None
    energy_before: EnergyReading | None = None
    """In the first sample of a device: its energy counter before the attempt named its devices, at the start."""


@dataclass(frozen=True, kw_only=True)
class HostSample:
    """Use of the host by the processes of the attempt since the last sample."""

    cpu_s: Measured
    """Processor seconds of all threads since the last sample [s]."""
    busiest_thread: Measured | None
    """Share of one core that the busiest thread used, in [0, 1]."""
    memory_bytes: Count
    """Resident memory of the attempt's processes."""
    available_bytes: Count
    """Memory that the attempt could still take. The limit of its control group counts, too; in rows of earlier
    versions, it did not."""


@dataclass(frozen=True, kw_only=True)
class Telemetry(Row):
    """Sample of host and accelerators. Also the heartbeat of the supervisor."""

    DURABLE: ClassVar[bool] = False

    wall_ns: Count
    """Age of the attempt [ns]."""
    host: HostSample | None
    """Sample of the host: the fields of :class:`HostSample`."""
    devices: list[DeviceSample]

    def to_data(self) -> dict[str, Any]:
        """Return the fields as plain JSON values; devices without an earlier reading have no field for it."""
        data = super().to_data()
        for device in data["devices"]:
            if device["energy_before"] is None:
                del device["energy_before"]
        return data


@dataclass(frozen=True, kw_only=True)
class Tally(Row):
    """Sums of the phase windows and telemetry before it, in journals of earlier versions. Nothing reads it."""

    windows: dict[str, Any]
    """Sums of the phase windows."""
    telemetry: dict[str, Any]
    """Sums of the telemetry."""
