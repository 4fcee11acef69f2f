"""Traces replay the recorded samples, and a hanging or failing driver blocks nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ledger_lab.ledger import DeviceSample
from ledger_lab.meters import NoDevices, PatientDevices, Reading, ReplayDevices, record_trace
from ledger_lab.meters.devices import Devices, Tell

SILENT = Reading(uuid="GPU-a").to_sample()
SAMPLE = Reading(uuid="GPU-a", utilization_percent=50, power_mw=1500, temperature_c=40).to_sample()


def test_a_trace_is_replayed_and_then_has_no_figures(tmp_path: Path) -> None:
    readings = [Reading(uuid="GPU-a", energy_mj=7, sm_clock_mhz=1500), Reading(uuid="GPU-a", energy_mj=9)]
    left = iter(readings)
    record_trace(lambda: [next(left)], tmp_path / "t.jsonl", samples=2, interval_s=0.0, origin="a test")
    devices = ReplayDevices(tmp_path / "t.jsonl")
    assert [devices.sample() for _ in range(4)] == [
        [readings[0].to_sample()],
        [readings[1].to_sample()],
        [SILENT],
        [SILENT],
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", ":1: not JSON"),
        ('{"format": "other"}\n', ":1: not a trace"),
        ('{"format": "ledger_lab/nvml-trace/1"}\n[]\n', ":2: not an object"),
        ('{"format": "ledger_lab/nvml-trace/1"}\n{"readings": [{"uuid": "a", "volts": 1}]}\n', ":2: not a moment"),
    ],
)
def test_an_error_in_a_trace_names_file_and_line(tmp_path: Path, text: str, where: str) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text(text)
    with pytest.raises(ValueError, match=f"{trace}{where}"):
        ReplayDevices(trace)


class Hanging:
    """Devices whose driver hangs while told to, and whose counter says how often they were asked."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.asked = 0

    def sample(self) -> list[DeviceSample]:
        self.asked += 1
        asked = self.asked
        self.goes_on.wait(60)
        return [Reading(uuid="GPU-a", energy_mj=asked).to_sample()]

    def close(self) -> None:
        pass


def test_a_hanging_driver_is_not_waited_for_until_it_answers() -> None:
    driver, told = Hanging(), []
    devices = PatientDevices(lambda tell: driver, told.append, limit_s=0.2)

    def answered() -> int:
        while not (samples := devices.sample()) or samples[0].energy_mj is None:
            pass
        return samples[0].energy_mj

    driver.goes_on.set()
    before = answered()
    driver.goes_on.clear()
    assert [devices.sample() for _ in range(3)] == [[SILENT]] * 3
    assert driver.asked == before + 1
    driver.goes_on.set()
    assert answered() > before + 1  # the late answer is of another moment
    assert told == ["accelerators did not answer within 0.2 s"]
    devices.close()
    assert devices.sample() == [SILENT]


def test_a_driver_that_cannot_be_opened_is_reported_once() -> None:
    def fails(tell: Tell) -> Devices:
        tell("first")
        raise OSError("broken library")

    told: list[str] = []
    devices = PatientDevices(fails, told.append, limit_s=30)
    assert [devices.sample() for _ in range(3)] == [[], [], []]
    assert told == ["first", "accelerators are not metered: OSError: broken library"]


def test_an_unexpected_driver_error_gives_samples_without_figures() -> None:
    class Fails(NoDevices):
        healthy = True

        def sample(self) -> list[DeviceSample]:
            if self.healthy:
                return [SAMPLE]
            raise RuntimeError("a fault")

    driver, told = Fails(""), []
    devices = PatientDevices(lambda tell: driver, told.append, limit_s=30)
    assert devices.sample() == [SAMPLE]
    driver.healthy = False
    assert [devices.sample() for _ in range(2)] == [[SILENT]] * 2
    assert told == ["accelerators did not answer: RuntimeError: a fault"]
