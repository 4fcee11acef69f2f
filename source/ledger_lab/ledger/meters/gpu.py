"""The meter of an NVIDIA GPU, through the driver's own libraries: without torch, and without a CUDA context."""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any
from uuid import UUID

from ledger_lab.ledger import DeviceSample, EnergyReading
from ledger_lab.ledger.endings import reason_of

_FIGURES = [each.name for each in fields(DeviceSample) if each.name != "uuid"]

_OPENING_S = 30.0
"""Time that the driver may take for its first answer before this is reported [s]. An idle driver takes seconds."""


def silent_sample(uuid: str) -> DeviceSample:
    """Return a sample of a device that gives no figures."""
    return DeviceSample(uuid=uuid, **dict.fromkeys(_FIGURES))


class GpuMeter:
    """Asks NVIDIA's driver (NVML) in a separate thread, so that a hanging driver blocks nothing else.

    A sample that arrives too late counts as missing. While a call to the driver is pending, no further call is made,
    and no caller waits for it. No error is raised. A process that forks must make its meter after the fork.
    """

    def __init__(
        self,
        started_ns: int,
        tell: Callable[[str], None],
        *,
        limit_s: float = 0.5,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        """Begin to read the energy counters of all GPUs of this host, before an attempt names the one that it uses.

        Args:
            started_ns: Start of the attempt, on the scale of ``clock_ns``.
            tell: Called in the thread, once with each line that says why something is not metered.
            limit_s: How long :meth:`sample` waits for an answer [s].
            clock_ns: Monotonic clock [ns].
        """
        self._started_ns, self._tell, self._limit_s, self._clock_ns = started_ns, tell, limit_s, clock_ns
        self._told: set[str] = set()
        self._at_start: dict[str, EnergyReading] = {}
        self._questions: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[list[DeviceSample]] = queue.SimpleQueue()
        self._is_pending, self._has_answered, self._began_s = False, threading.Event(), time.monotonic()
        self._silence: list[DeviceSample] = []
        # A daemon: the process must be able to end while the driver hangs.
        self._thread = threading.Thread(target=self._work, name="GPU meter", daemon=True)
        with suppress(RuntimeError):  # no thread can be started
            self._thread.start()

    def energy_at_start(self, uuid: str) -> EnergyReading | None:
        """Return the energy counter of a GPU at the start; ``None`` if it has none, or has not answered yet.

        Args:
            uuid: NVML's name of the GPU. MIG slices have no counter.
        """
        return self._at_start.get(uuid)

    def sample(self, ordinal: int) -> list[DeviceSample]:
        """Sample a GPU. A figure that it does not report within the limit is ``None``.

        Args:
            ordinal: Its number, as CUDA counts the GPUs of this process.

        Returns:
            The sample; nothing if the GPU has never answered.
        """
        try:
            if self._is_pending:
                self._answers.get_nowait()  # it describes an earlier time
            self._is_pending = True
            self._questions.put(ordinal)
            samples = self._answers.get(timeout=self._limit_s)
        except queue.Empty:
            if self._has_answered.is_set() or time.monotonic() > self._began_s + _OPENING_S:
                self._tell_once(f"the GPU did not answer within {self._limit_s:g} s")
            return list(self._silence)
        self._is_pending = False
        return samples

    def close(self) -> None:
        """Release the driver, and end the thread, unless a call to the driver blocks it.

        The driver stays open until then, because a GPU that nobody uses may restart its counter.
        """
        self._questions.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout=self._limit_s)

    def _work(self) -> None:
        """Read the counters, and answer questions; runs in the thread."""
        gpu: _Gpu | None = None
        failure: Exception | None = None
        try:
            import pynvml as nvml

            nvml.nvmlInit()
            self._read_counters(nvml)
        except Exception as error:  # noqa: BLE001 - a meter that fails, however it does, must not end a training
            failure = error
        while (ordinal := self._questions.get()) is not None:
            samples = list(self._silence)
            try:
                if failure is None and gpu is None:
                    gpu = _Gpu(nvml, ordinal)
                    self._silence = [silent_sample(gpu.uuid)]
                if gpu is not None:
                    samples = [gpu.sample(self._tell_once)]
            except Exception as error:  # noqa: BLE001 - as above
                failure = error
            if failure is not None:
                self._tell_once(f"the GPU is not metered: {reason_of(failure)}")
            self._has_answered.set()
            self._answers.put(samples)
        with suppress(Exception):  # it was never open, or fails now
            nvml.nvmlShutdown()

    def _read_counters(self, nvml: Any) -> None:
        """Read the energy counters of all GPUs."""
        for index in range(nvml.nvmlDeviceGetCount()):
            with suppress(nvml.NVMLError):  # it is lost, of another job on this host, or has no such meter
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                energy_mj = int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
                age_ns = self._clock_ns() - self._started_ns
                self._at_start[nvml.nvmlDeviceGetUUID(handle)] = EnergyReading(wall_ns=age_ns, energy_mj=energy_mj)

    def _tell_once(self, line: str) -> None:
        """Print a line that was not printed before."""
        if line not in self._told:
            self._told.add(line)
            self._tell(line)


class _Gpu:
    """A device that CUDA can use: a GPU, or a MIG slice."""

    def __init__(self, nvml: Any, ordinal: int) -> None:
        """Find a device of CUDA in NVML.

        Raises:
            OSError: If CUDA has no such device.
            NVMLError: If NVML does not know it.
        """
        self._nvml, uuid = nvml, cuda_uuid(ordinal)
        try:
            self.uuid = f"GPU-{uuid}"
            self._handle = self._whole = nvml.nvmlDeviceGetHandleByUUID(self.uuid)
            self._is_slice = False
        except nvml.NVMLError:
            self.uuid = f"MIG-{uuid}"
            self._handle = nvml.nvmlDeviceGetHandleByUUID(self.uuid)
            self._whole = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self._handle)
            self._is_slice = True

    def sample(self, tell: Callable[[str], None]) -> DeviceSample:
        """Sample the device. Figures of a whole GPU, such as its power, are not used for a slice."""
        nvml, whole = self._nvml, None if self._is_slice else self._whole
        if whole is None:
            tell("power, energy and utilization are not metered: NVML knows them for whole GPUs, not for MIG slices")
        sample = DeviceSample(
            uuid=self.uuid,
            utilization=self._asked(lambda: nvml.nvmlDeviceGetUtilizationRates(whole).gpu / 100) if whole else None,
            memory_used_bytes=self._asked(lambda: int(nvml.nvmlDeviceGetMemoryInfo(self._handle).used)),
            power_w=self._asked(lambda: nvml.nvmlDeviceGetPowerUsage(whole) / 1000) if whole else None,
            energy_mj=self._asked(lambda: int(nvml.nvmlDeviceGetTotalEnergyConsumption(whole))) if whole else None,
            temperature_c=self._temperature(),
            sm_clock_mhz=self._asked(lambda: int(nvml.nvmlDeviceGetClockInfo(self._whole, nvml.NVML_CLOCK_SM))),
        )
        if sample == silent_sample(self.uuid):
            tell(f"{self.uuid} does not answer")
        return sample

    def _temperature(self) -> float | None:
        """Return the temperature [°C]. NVML has two functions for it: one of old drivers, one of new drivers."""
        for name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"):
            if (ask := getattr(self._nvml, name, None)) is not None:
                value = self._asked(lambda: float(ask(self._whole, self._nvml.NVML_TEMPERATURE_GPU)))  # noqa: B023
                if value is not None:
                    return value
        return None

    def _asked[T](self, ask: Callable[[], T]) -> T | None:
        """Return a reading; ``None`` if NVML gives none, because the GPU has no such meter or is lost."""
        try:
            return ask()
        except self._nvml.NVMLError:
            return None


def cuda_uuid(ordinal: int) -> UUID:
    """Return the UUID of a device, as CUDA itself counts the devices: the environment of the process decides.

    Args:
        ordinal: Number of the device.

    Raises:
        OSError: If there is no such device, or no driver.
    """
    cuda = ctypes.CDLL("libcuda.so.1")
    device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    fault = (
        cuda.cuInit(0)
        or cuda.cuDeviceGet(ctypes.byref(device), ordinal)
        or cuda.cuDeviceGetUuid_v2(ctypes.byref(uuid), device)
    )
    if fault:
        raise OSError(f"there is no cuda:{ordinal} (error {fault} of CUDA)")
    return UUID(bytes=bytes(uuid))
