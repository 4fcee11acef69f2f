"""Libraries of the driver in place of the real ones, with the errors of ``pynvml``: these tests need no GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any
from uuid import UUID

import pynvml
import pytest

from ledger_lab.ledger.meters import gpu as meter

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

    number: int
    figures: dict[str, Any] = field(default_factory=lambda: dict(FIGURES))
    """Answers by function; an error is raised."""
    whole: FakeGpu | None = None
    """The GPU of a slice."""

    @property
    def uuid(self) -> str:
        return f"{'MIG' if self.whole else 'GPU'}-{UUID(int=self.number)}"


def error(code: int) -> Exception:
    """Return the error that pynvml raises for a code of NVML's."""
    return pynvml.NVMLError(code)


class FakeNvml(ModuleType):
    """The functions of ``pynvml`` that the meter calls."""

    NVMLError = pynvml.NVMLError
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

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:  # noqa: N802
        found = [gpu for gpu in self._gpus if isinstance(gpu, FakeGpu) and gpu.uuid == uuid]
        if not found:
            raise error(pynvml.NVML_ERROR_NOT_FOUND)
        return found[0]

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, migDevice: FakeGpu) -> FakeGpu | None:  # noqa: N802, N803
        return migDevice.whole

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:  # noqa: N802
        return handle.uuid

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
    """Put the fake where the meter imports ``pynvml`` from. CUDA counts devices by their numbers."""
    fake = FakeNvml(gpus, init)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(meter, "cuda_uuid", lambda ordinal: UUID(int=ordinal))
    return fake
