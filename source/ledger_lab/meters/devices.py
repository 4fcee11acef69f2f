"""Meters of accelerators: one protocol, for no device, a recorded trace, or NVIDIA's driver (:mod:`.nvml`)."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from ledger_lab.ledger import DeviceSample
from ledger_lab.ledger.endings import reason_of

Tell = Callable[[str], None]
"""Called with one line that says why something is not metered."""


class Devices(Protocol):
    """The accelerators of an attempt."""

    def sample(self) -> list[DeviceSample]:
        """Sample every device. A figure that a device does not report is ``None``; nothing is raised."""

    def close(self) -> None:
        """Release the driver."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Readings of one device in NVML's units; ``None`` if NVML gave none."""

    uuid: str
    utilization_percent: int | None = None
    memory_used_bytes: int | None = None
    power_mw: int | None = None
    energy_mj: int | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None

    def to_sample(self) -> DeviceSample:
        """Return the reading in the units of the ledger."""
        percent, milliwatts, celsius = self.utilization_percent, self.power_mw, self.temperature_c
        return DeviceSample(
            uuid=self.uuid,
            utilization=None if percent is None else percent / 100,
            memory_used_bytes=self.memory_used_bytes,
            power_w=None if milliwatts is None else milliwatts / 1000,
            energy_mj=self.energy_mj,
            temperature_c=None if celsius is None else float(celsius),
            sm_clock_mhz=self.sm_clock_mhz,
        )


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


class ReplayDevices:
    """Devices that replay a trace, one line per sample. After its end, there are no figures."""

    def __init__(self, trace: Path) -> None:
        """Read the trace.

        Args:
            trace: File written by :func:`record_trace`.

        Raises:
            ValueError: If a line is not one of a trace; the message names file and line.
        """
        header, *lines = trace.read_text(encoding="utf-8").splitlines() or [""]
        if _parsed(trace, 1, header).get("format") != _FORMAT:
            raise ValueError(f"{trace}:1: not a trace of the format {_FORMAT!r}")
        self._moments: list[list[Reading]] = []
        for number, line in enumerate(lines, start=2):
            try:
                self._moments.append([Reading(**reading) for reading in _parsed(trace, number, line)["readings"]])
            except (KeyError, TypeError) as error:
                raise ValueError(f"{trace}:{number}: not a moment of a trace: {error}") from error
        self._uuids = list(dict.fromkeys(reading.uuid for moment in self._moments for reading in moment))
        self._next = 0

    def sample(self) -> list[DeviceSample]:
        """Return the next sample of the trace."""
        over = self._next >= len(self._moments)
        readings = [Reading(uuid=uuid) for uuid in self._uuids] if over else self._moments[self._next]
        self._next += 1
        return [reading.to_sample() for reading in readings]

    def close(self) -> None:
        """Do nothing."""


_FORMAT = "ledger_lab/nvml-trace/1"


def _parsed(trace: Path, number: int, line: str) -> dict[str, Any]:
    """Parse a line of a trace."""
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{trace}:{number}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{trace}:{number}: not an object")
    return value


def record_trace(
    read: Callable[[], Sequence[Reading]], trace: Path, *, samples: int, interval_s: float = 1.0, origin: str
) -> None:
    """Record the samples of devices, for :class:`ReplayDevices`.

    Args:
        read: Reads them, like :meth:`ledger_lab.meters.nvml.NvmlDevices.read`.
        trace: File to write.
        samples: Number of samples.
        interval_s: Time between two samples [s].
        origin: Description of the recorded hardware, for readers of the file.
    """
    started_ns = time.perf_counter_ns()
    with trace.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"format": _FORMAT, "origin": origin}) + "\n")
        for number in range(samples):
            time.sleep(max(0.0, number * interval_s - (time.perf_counter_ns() - started_ns) / 1e9))
            moment = {"wall_ns": time.perf_counter_ns() - started_ns, "readings": [asdict(each) for each in read()]}
            file.write(json.dumps(moment) + "\n")


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
        return [Reading(uuid=uuid).to_sample() for uuid in self._uuids]

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
