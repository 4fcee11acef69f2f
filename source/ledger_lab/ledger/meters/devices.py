"""Meters of accelerators: one protocol, for no device or for NVIDIA's driver (:mod:`.nvml`)."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Protocol

from ledger_lab.ledger import DeviceSample
from ledger_lab.ledger.endings import reason_of

Tell = Callable[[str], None]
"""Called with one line that says why something is not metered."""


_FIGURES = [each.name for each in fields(DeviceSample) if each.name != "uuid"]


class Devices(Protocol):
    """The accelerators of an attempt."""

    def sample(self) -> list[DeviceSample]:
        """Sample every device. A figure that a device does not report is ``None``; nothing is raised."""

    def close(self) -> None:
        """Release the driver."""


def silent_sample(uuid: str) -> DeviceSample:
    """Return a sample of a device that gives no figures."""
    return DeviceSample(uuid=uuid, **dict.fromkeys(_FIGURES))


class NoDevices:
    """No accelerator is metered."""

    def __init__(self, reason: str) -> None:
        """Remember the reason.

        Args:
            reason: The reason, in one line.
        """
        self.reason = reason

    def sample(self) -> list[DeviceSample]:
        """Return nothing."""
        return []

    def close(self) -> None:
        """Do nothing."""


_OPENING_S = 30.0
"""Time that opening a driver may take before it is reported [s]."""


class PatientDevices:
    """Devices that are sampled in a separate thread, so that a hanging driver blocks nothing else.

    A sample that arrives too late counts as missing. While a call to the driver is pending, no further call is made,
    and no caller waits for it.
    """

    def __init__(self, open_devices: Callable[[Tell], Devices], tell: Tell, limit_s: float = 0.5) -> None:
        """Start to open the devices.

        Args:
            open_devices: Opens them; it gets a function to call with reasons why something is not metered.
            tell: Called once with each such line, in the sampling thread.
            limit_s: How long :meth:`sample` waits for an answer [s].
        """
        self._open, self._tell, self._limit_s = open_devices, tell, limit_s
        self._questions: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[list[DeviceSample]] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._told: set[str] = set()
        self._uuids: list[str] = []
        self._unanswered, self._closed = False, False
        self._opened, self._began_s = threading.Event(), time.monotonic()
        # A daemon: the process must be able to end while the driver hangs.
        self._thread = threading.Thread(target=self._answer, name="devices", daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        """Open the devices and take samples on request; runs in the thread."""
        try:
            devices = self._open(self._said.put)
        except Exception as error:  # noqa: BLE001 - a meter that fails, however it does, must not end a training
            self._said.put(f"accelerators are not metered: {reason_of(error)}")
            devices = NoDevices(str(error))
        self._opened.set()
        while self._questions.get():
            try:
                self._answers.put(devices.sample())
            except Exception as error:  # noqa: BLE001 - as above
                self._said.put(f"accelerators did not answer: {reason_of(error)}")
                self._answers.put(self._silence())
        devices.close()

    def _silence(self) -> list[DeviceSample]:
        """Return samples without figures, for the known devices."""
        return [silent_sample(uuid) for uuid in self._uuids]

    def sample(self) -> list[DeviceSample]:
        """Return a sample, if it arrives within the limit."""
        samples = self._silence() if self._closed else self._ask()
        while not self._said.empty():
            line = self._said.get()
            if line not in self._told:
                self._told.add(line)
                self._tell(line)
        return samples

    def _ask(self) -> list[DeviceSample]:
        """Sample, unless an earlier sample is pending. Drop late samples, because they describe an earlier time."""
        try:
            if self._unanswered:
                self._answers.get_nowait()
                self._unanswered = False
            self._questions.put(True)
            self._unanswered = True
            samples = self._answers.get(timeout=self._limit_s)
            self._unanswered = False
        except queue.Empty:
            # An idle driver takes seconds to wake up.
            if self._opened.is_set() or time.monotonic() > self._began_s + _OPENING_S:
                self._said.put(f"accelerators did not answer within {self._limit_s:g} s")
            return self._silence()
        self._uuids = [sample.uuid for sample in samples]
        return samples

    def close(self) -> None:
        """End the thread, unless a driver call blocks it."""
        self._closed = True
        self._questions.put(False)
        self._thread.join(timeout=self._limit_s)
