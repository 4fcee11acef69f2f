"""NVIDIA accelerators, metered through the driver's library (NVML), without torch and without a CUDA context."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ledger_lab.ledger import DeviceSample, EnergyReading
from ledger_lab.ledger.meters.devices import Devices, NoDevices, PatientDevices, Tell, silent_sample

_MOST_DIGITS = 9
"""Largest number of digits of the index of a device."""


def open_devices(
    device: str | None,
    *,
    local_processes: int = 1,
    environ: Mapping[str, str] = os.environ,
    tell: Tell = lambda line: None,
) -> Devices:
    """Find the accelerators that a training on this host uses.

    Returns at once: the driver is opened in a thread, and samples are empty until that is done. A process that forks
    must open its devices after the fork.

    Args:
        device: Value of ``--device``: ``cpu``, ``cuda``, ``cuda:1``; ``None`` for CUDA if there is a device.
        local_processes: Processes of the training on this host; with several, process ``i`` uses ``cuda:i``.
        environ: Environment of the training, which decides what CUDA counts as devices.
        tell: Called once with each reason why something is not metered. On a host without NVIDIA's driver, it is called
            only if CUDA was requested.

    Returns:
        The devices. They never raise.
    """
    if device is not None and not device.startswith("cuda"):
        return NoDevices(f"the training runs on {device}")
    _, _, ordinal = (device or "").partition(":")
    if ordinal and not _is_index(ordinal):
        return NoDevices(f"{device!r} is no device")  # the training refuses this with a better message
    first = int(ordinal or 0)
    ordinals = range(local_processes) if local_processes > 1 else range(first, first + 1)
    wanted = device is not None
    return PatientDevices(lambda say: open_nvml(ordinals, environ, say, wanted=wanted), tell)


def _is_index(text: str) -> bool:
    """Tell whether a text is the index of a device; Python refuses to convert thousands of digits."""
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def open_nvml(
    ordinals: Sequence[int], environ: Mapping[str, str], tell: Tell, *, wanted: bool = True
) -> NvmlDevices | NoDevices:
    """Open NVML, and match CUDA's devices with those of NVML.

    Args:
        ordinals: Devices as CUDA counts them in that environment.
        environ: Environment of the process that uses them.
        tell: Called with reasons why something is not metered.
        wanted: Whether CUDA was requested; if not, a missing driver is not reported.

    Returns:
        The devices; :class:`NoDevices` if any of them cannot be matched.
    """
    try:
        import pynvml as nvml
    except ImportError:
        tell("GPUs are not metered: nvidia-ml-py is not installed")
        return NoDevices("nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if wanted:
            tell(f"GPUs are not metered: {error}")
        return NoDevices(str(error))
    try:
        visible = _Catalog(nvml).visible(environ)
        missing = [ordinal for ordinal in ordinals if ordinal >= len(visible)]
        if missing:
            names = environ.get("CUDA_VISIBLE_DEVICES")
            shown = "" if names is None else f" with CUDA_VISIBLE_DEVICES={names}"
            raise _UnmatchedError(f"there are {len(visible)} GPUs for CUDA{shown}, and no cuda:{missing[0]}")
        return NvmlDevices(nvml, [visible[ordinal] for ordinal in ordinals], tell)
    except (_UnmatchedError, nvml.NVMLError) as error:
        nvml.nvmlShutdown()
        if wanted or not isinstance(error, _UnmatchedError) or error.surprising:
            tell(f"GPUs are not metered: {error}")
        return NoDevices(str(error))


class EnergyAtStart:
    """Energy counters of all GPUs of this host, read once at the start of an attempt.

    It takes seconds until an attempt names the devices that it uses. Their energy counts from here on.
    """

    def __init__(self, started_ns: int, *, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        """Read the counters in a thread, because a driver can take seconds to answer, or hang.

        Args:
            started_ns: Start of the attempt, on the scale of ``clock_ns``.
            clock_ns: Monotonic clock [ns].
        """
        self._started_ns, self._clock_ns = started_ns, clock_ns
        self._readings: dict[str, EnergyReading] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, name="energy at start", daemon=True)
        with suppress(RuntimeError):  # no thread can be started; then the energy counts from the first sample on
            self._thread.start()

    def reading(self, uuid: str) -> EnergyReading | None:
        """Return the reading of a GPU; ``None`` if it has no counter, or has not answered yet.

        Args:
            uuid: NVML's name of the GPU. MIG slices have no counter.
        """
        return self._readings.get(uuid)

    def close(self, limit_s: float = 0.5) -> None:
        """Release the driver. Until then it stays open, because a GPU that nobody uses may restart its counter.

        Args:
            limit_s: How long to wait for a driver that hangs [s].
        """
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join(limit_s)

    def _read(self) -> None:
        """Read all counters."""
        with suppress(Exception):  # a failing driver is reported when the devices of the attempt are opened
            import pynvml as nvml

            nvml.nvmlInit()
            try:
                for gpu in _Catalog(nvml).whole:
                    with suppress(nvml.NVMLError):  # it has no such meter
                        energy_mj = int(nvml.nvmlDeviceGetTotalEnergyConsumption(gpu.handle))
                        age_ns = self._clock_ns() - self._started_ns
                        self._readings[gpu.uuid] = EnergyReading(wall_ns=age_ns, energy_mj=energy_mj)
                self._closed.wait()
            finally:
                nvml.nvmlShutdown()


class _UnmatchedError(Exception):
    """NVML's devices cannot be matched with the names that CUDA was given."""

    def __init__(self, reason: str, *, surprising: bool = False) -> None:
        super().__init__(reason)
        self.surprising = surprising
        """Whether there are devices that could be metered with other names."""


@dataclass(frozen=True)
class _Device:
    """A device that CUDA can use: a GPU, or a MIG slice."""

    uuid: str
    handle: Any
    """NVML's handle of the device."""
    gpu: Any
    """NVML's handle of the whole GPU."""
    older_name: str = ""
    """Name of a MIG slice in the older form, ``MIG-<GPU>/<GPU instance>/<compute instance>``."""

    @property
    def is_slice(self) -> bool:
        """Whether it is a MIG slice."""
        return self.handle is not self.gpu


@dataclass(frozen=True)
class _Gpu:
    """A GPU in NVML's view."""

    uuid: str
    name: str
    devices: tuple[_Device, ...]
    """What CUDA can use of it: the GPU, or its MIG slices. CUDA uses the first one for the GPU's name."""
    is_sliced: bool

    @property
    def first(self) -> _Device | None:
        """The device that CUDA uses for the GPU's name."""
        return next(iter(self.devices), None)


class _Catalog:
    """All GPUs of the host that this process may use."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._gpus: list[_Gpu] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                self._gpus.append(self._gpu(nvml.nvmlDeviceGetHandleByIndex(index)))
            except nvml.NVMLError:
                continue  # lost, or of another job on this host: CUDA counts neither

    @property
    def whole(self) -> Iterator[_Device]:
        """The GPUs that are not sliced."""
        return (device for gpu in self._gpus for device in gpu.devices if not device.is_slice)

    def _gpu(self, handle: Any) -> _Gpu:
        """Describe a GPU."""
        nvml = self._nvml
        uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
        try:
            is_sliced = nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
        except nvml.NVMLError:
            is_sliced = False  # most GPUs do not support MIG
        if not is_sliced:
            return _Gpu(uuid, name, (_Device(uuid, handle, handle),), is_sliced)
        slices: list[_Device] = []
        for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except nvml.NVMLError:
                continue  # no slice with this index
            instances = nvml.nvmlDeviceGetGpuInstanceId(part), nvml.nvmlDeviceGetComputeInstanceId(part)
            older_name = f"MIG-{uuid}/{instances[0]}/{instances[1]}"
            slices.append(_Device(nvml.nvmlDeviceGetUUID(part), part, handle, older_name))
        return _Gpu(uuid, name, tuple(slices), is_sliced)

    def visible(self, environ: Mapping[str, str]) -> list[_Device]:
        """Return the devices that CUDA sees, in the order in which it counts them.

        ``CUDA_VISIBLE_DEVICES`` holds indices, or UUIDs of GPUs or MIG slices, which may be shortened. If a name fits
        no device or several, it and all names after it are ignored (CUDA C++ Programming Guide, CUDA Environment
        Variables).

        Raises:
            _UnmatchedError: If indices do not identify the GPUs.
        """
        names = environ.get("CUDA_VISIBLE_DEVICES")
        tokens = [str(index) for index in range(len(self._gpus))] if names is None else names.split(",")
        found: list[_Device] = []
        for token in map(str.strip, tokens):
            device = self._by_index(token, environ) if _is_index(token) else self._by_uuid(token)
            if device is None or device in found:
                break
            found.append(device)
        return found

    def _by_index(self, token: str, environ: Mapping[str, str]) -> _Device | None:
        """Return the device that has this index in CUDA."""
        if len(self._gpus) > 1:
            if any(gpu.is_sliced for gpu in self._gpus):
                reason = "where GPUs are sliced (MIG), CUDA_VISIBLE_DEVICES must name a slice by its UUID"
                raise _UnmatchedError(reason, surprising=True)
            # CUDA orders GPUs by speed, NVML by bus position. For equal GPUs, the orders are the same.
            if len({gpu.name for gpu in self._gpus}) > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
                reason = (
                    "this host's GPUs differ, and CUDA counts them in an order of its own: set "
                    "CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID in CUDA_VISIBLE_DEVICES"
                )
                raise _UnmatchedError(reason, surprising=True)
        index = int(token)
        return self._gpus[index].first if index < len(self._gpus) else None

    def _by_uuid(self, token: str) -> _Device | None:
        """Return the device whose UUID starts with a name; ``None`` if there is none or more than one."""
        fitting: list[_Device | None] = []
        if token.startswith("MIG-"):
            slices = [device for gpu in self._gpus for device in gpu.devices if device.is_slice]
            fitting = [part for part in slices if part.uuid.startswith(token) or part.older_name == token]
        elif token.startswith("GPU-"):
            fitting = [gpu.first for gpu in self._gpus if gpu.uuid.startswith(token)]
        return fitting[0] if len(fitting) == 1 else None


class NvmlDevices:
    """Devices that are metered through NVML."""

    def __init__(self, nvml: Any, devices: Sequence[_Device], tell: Tell) -> None:
        """Use an initialised NVML.

        Args:
            nvml: The module ``pynvml``.
            devices: Devices to meter.
            tell: Called when a device stops responding, and with what cannot be metered.
        """
        self._nvml, self._devices, self._tell = nvml, tuple(devices), tell
        self._silent: set[str] = set()
        if any(device.is_slice for device in devices):
            tell("power, energy and utilization are not metered: NVML knows them for whole GPUs, not for MIG slices")

    def sample(self) -> list[DeviceSample]:
        """Sample every device."""
        samples = [self._sample(device) for device in self._devices]
        for sample in samples:
            silent = sample == silent_sample(sample.uuid)
            if silent and sample.uuid not in self._silent:
                self._tell(f"{sample.uuid} does not answer")
            (self._silent.add if silent else self._silent.discard)(sample.uuid)
        return samples

    def close(self) -> None:
        """Release NVML."""
        self._asked(self._nvml.nvmlShutdown)

    def _sample(self, device: _Device) -> DeviceSample:
        """Sample one device. Figures of a whole GPU, such as its power, are not used for a slice."""
        nvml, gpu, whole = self._nvml, device.gpu, not device.is_slice
        return DeviceSample(
            uuid=device.uuid,
            utilization=self._asked(lambda: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100) if whole else None,
            memory_used_bytes=self._asked(lambda: int(nvml.nvmlDeviceGetMemoryInfo(device.handle).used)),
            power_w=self._asked(lambda: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000) if whole else None,
            energy_mj=self._asked(lambda: int(nvml.nvmlDeviceGetTotalEnergyConsumption(gpu))) if whole else None,
            temperature_c=self._temperature(gpu),
            sm_clock_mhz=self._asked(lambda: int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))),
        )

    def _temperature(self, gpu: Any) -> float | None:
        """Return the temperature [°C]. NVML has two functions for it: one of old drivers, one of new drivers."""
        nvml = self._nvml
        for name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"):
            ask = getattr(nvml, name, None)
            value = None if ask is None else self._asked(partial(ask, gpu, nvml.NVML_TEMPERATURE_GPU))
            if value is not None:
                return float(value)
        return None

    def _asked[T](self, ask: Callable[[], T]) -> T | None:
        """Return a reading; ``None`` if NVML gives none, because the GPU has no such meter or is lost."""
        try:
            return ask()
        except self._nvml.NVMLError:
            return None
