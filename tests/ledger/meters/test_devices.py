"""A hanging or failing driver blocks nothing."""

from __future__ import annotations

import threading
from dataclasses import replace

from ledger_lab.ledger import DeviceSample
from ledger_lab.ledger.meters import NoDevices, PatientDevices
from ledger_lab.ledger.meters.devices import Devices, Tell, silent_sample

SILENT = silent_sample("GPU-a")
SAMPLE = replace(SILENT, utilization=0.5, power_w=1.5, temperature_c=40.0)


class Hanging:
    """Devices whose driver hangs while told to, and whose counter says how often they were asked."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.asked = 0

    def sample(self) -> list[DeviceSample]:
        self.asked += 1
        asked = self.asked
        self.goes_on.wait(60)
        return [replace(SILENT, energy_mj=asked)]

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
