"""A driver library in place of ``pynvml``'s, with the errors of the real one: these tests need no GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pynvml
import pytest

FIGURES = {
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87, memory=41),
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=150_754_820_096, free=140_754_820_096, used=10_000_000_000),
    "nvmlDeviceGetPowerUsage": 412_345,
    "nvmlDeviceGetTotalEnergyConsumption": 5_123_456_789,
    "nvmlDeviceGetTemperature": 61,
    "nvmlDeviceGetClockInfo": 1_980,
}
"""What a GPU says if nothing else is asked for."""


@dataclass(eq=False)
class FakeGpu:
    """A GPU, or a MIG slice."""

    uuid: str
    name: str = "NVIDIA H200"
    figures: dict[str, Any] = field(default_factory=lambda: dict(FIGURES))
    """Answers by function; an error is raised."""
    slices: list[FakeGpu | None] | None = None
    """MIG slices; ``None`` without MIG. A ``None`` among them is a place without a slice."""
    ids: tuple[int, int] = (1, 0)
    """GPU instance and compute instance of a slice."""


def error(code: int) -> Exception:
    """Return the error that pynvml raises for a code of NVML's."""
    return pynvml.NVMLError(code)


class FakeNvml(ModuleType):
    """The functions of ``pynvml`` that the meters call."""

    NVMLError = pynvml.NVMLError
    NVML_DEVICE_MIG_ENABLE = pynvml.NVML_DEVICE_MIG_ENABLE
    NVML_TEMPERATURE_GPU = pynvml.NVML_TEMPERATURE_GPU
    NVML_CLOCK_SM = pynvml.NVML_CLOCK_SM

    def __init__(self, gpus: Sequence[FakeGpu | Exception], init: Exception | None = None) -> None:
        super().__init__("pynvml")
        self._gpus, self._init = gpus, init
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if self._init is not None:
            raise self._init
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802
        gpu = self._gpus[index]
        if isinstance(gpu, Exception):
            raise gpu
        return gpu

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:  # noqa: N802
        return handle.uuid

    def nvmlDeviceGetName(self, handle: FakeGpu) -> str:  # noqa: N802
        return handle.name

    def nvmlDeviceGetMigMode(self, device: FakeGpu) -> list[int]:  # noqa: N802
        if device.slices is None:
            raise error(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [pynvml.NVML_DEVICE_MIG_ENABLE, pynvml.NVML_DEVICE_MIG_ENABLE]

    def nvmlDeviceGetMaxMigDeviceCount(self, device: FakeGpu) -> int:  # noqa: N802
        return len(device.slices or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: FakeGpu, index: int) -> FakeGpu:  # noqa: N802
        part = (device.slices or [])[index]
        if part is None:
            raise error(pynvml.NVML_ERROR_NOT_FOUND)
        return part

    def nvmlDeviceGetGpuInstanceId(self, device: FakeGpu) -> int:  # noqa: N802
        return device.ids[0]

    def nvmlDeviceGetComputeInstanceId(self, device: FakeGpu) -> int:  # noqa: N802
        return device.ids[1]

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> Any:  # noqa: N802
        return _answer(handle, "nvmlDeviceGetUtilizationRates")

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu, version: int | None = None) -> Any:  # noqa: N802
        return _answer(handle, "nvmlDeviceGetMemoryInfo")

    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu) -> int:  # noqa: N802
        return _answer(handle, "nvmlDeviceGetPowerUsage")

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: FakeGpu) -> int:  # noqa: N802
        return _answer(handle, "nvmlDeviceGetTotalEnergyConsumption")

    def nvmlDeviceGetTemperature(self, handle: FakeGpu, sensor: int) -> int:  # noqa: N802
        return _answer(handle, "nvmlDeviceGetTemperature")

    def nvmlDeviceGetTemperatureV(self, handle: FakeGpu, sensor: int) -> int:  # noqa: N802
        return _answer(handle, "nvmlDeviceGetTemperatureV")

    def nvmlDeviceGetClockInfo(self, handle: FakeGpu, type: int) -> int:  # noqa: N802, A002
        return _answer(handle, "nvmlDeviceGetClockInfo")


def _answer(gpu: FakeGpu, function: str) -> Any:
    """Say what the GPU says, or raise what it raises."""
    figure = gpu.figures.get(function, error(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
    if isinstance(figure, Exception):
        raise figure
    return figure() if isinstance(figure, Callable) else figure  # type: ignore[arg-type]


def install(monkeypatch: pytest.MonkeyPatch, *gpus: FakeGpu | Exception, init: Exception | None = None) -> FakeNvml:
    """Put the fake where the meters import ``pynvml`` from."""
    fake = FakeNvml(gpus, init)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake
