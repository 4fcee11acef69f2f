"""Devices that replay a trace in NVML's units, one line per sample."""

from __future__ import annotations

import json
from pathlib import Path

from ledger_lab.ledger import DeviceSample
from ledger_lab.ledger.meters.gpu import silent_sample


class TracedDevices:
    """Devices of a trace. After its end, there are no figures."""

    def __init__(self, trace: Path) -> None:
        header, *lines = map(json.loads, trace.read_text(encoding="utf-8").splitlines())
        assert header["format"] == "ledger_lab/nvml-trace/1"
        self._moments = [[_sample(**reading) for reading in line["readings"]] for line in lines]
        self._silence = [silent_sample(uuid) for uuid in {s.uuid: s for moment in self._moments for s in moment}]

    def sample(self) -> list[DeviceSample]:
        return self._moments.pop(0) if self._moments else self._silence


def _sample(
    uuid: str,
    utilization_percent: int | None,
    memory_used_bytes: int | None,
    power_mw: int | None,
    energy_mj: int | None,
    temperature_c: int | None,
    sm_clock_mhz: int | None,
) -> DeviceSample:
    return DeviceSample(
        uuid=uuid,
        utilization=None if utilization_percent is None else utilization_percent / 100,
        memory_used_bytes=memory_used_bytes,
        power_w=None if power_mw is None else power_mw / 1000,
        energy_mj=energy_mj,
        temperature_c=temperature_c,
        sm_clock_mhz=sm_clock_mhz,
    )
