"""A GPU is metered as CUDA counts it, no driver error becomes an exception, and a driver that hangs blocks nothing."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import pynvml
import pytest

from ledger_lab.ledger import EnergyReading
from ledger_lab.ledger.meters.gpu import GpuMeter, silent_sample
from tests.fakes import nvml as fakes
from tests.fakes.nvml import FakeGpu, error

ENERGY = "nvmlDeviceGetTotalEnergyConsumption"
FULL = replace(
    silent_sample(FakeGpu(1).uuid),
    utilization=0.87,
    memory_used_bytes=10_000_000_000,
    power_w=412.345,
    energy_mj=5_123_456_789,
    temperature_c=61.0,
    sm_clock_mhz=1980,
)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch, told: list[str], request: pytest.FixtureRequest) -> Iterator[GpuMeter]:
    """A meter that waits for answers; the parameter is the GPUs."""
    fake = fakes.install(monkeypatch, *request.param)
    made = GpuMeter(1_000, told.append, limit_s=30, clock_ns=lambda: 5_000)
    yield made
    made.close()
    assert fake.open == 0


def gpus(*those: FakeGpu | Exception) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("meter", [those], indirect=True, ids=[""])


def test_the_fake_has_the_functions_of_the_real_library() -> None:
    for name, function in vars(fakes.FakeNvml).items():
        if name.startswith("nvml"):
            real = inspect.signature(getattr(pynvml, name))
            assert list(inspect.signature(function).parameters)[1:] in (list(real.parameters), ["handle", "sensor"])


@gpus(FakeGpu(2), FakeGpu(1))
def test_the_gpu_is_the_one_that_cuda_counts_and_figures_are_in_the_units_of_the_ledger(
    meter: GpuMeter, told: list[str]
) -> None:
    assert meter.sample(1) == [FULL]
    assert told == []


@gpus(FakeGpu(7, whole=FakeGpu(6)))
def test_a_mig_slice_has_its_own_name_and_no_figures_of_the_whole_gpu(meter: GpuMeter, told: list[str]) -> None:
    own = replace(FULL, uuid=FakeGpu(7, whole=FakeGpu(6)).uuid, utilization=None, power_w=None, energy_mj=None)
    assert [meter.sample(7) for _ in range(2)] == [[own]] * 2
    assert len(told) == 1 and "MIG" in told[0]


@gpus(
    error(pynvml.NVML_ERROR_GPU_IS_LOST),
    FakeGpu(2, figures={ENERGY: error(pynvml.NVML_ERROR_NOT_SUPPORTED), "nvmlDeviceGetTemperatureV": 55}),
    FakeGpu(3),
)
def test_counters_are_read_at_the_start_and_a_missing_meter_is_none(meter: GpuMeter, told: list[str]) -> None:
    (sample,) = meter.sample(2)
    assert sample == replace(silent_sample(FakeGpu(2).uuid), temperature_c=55.0), "by the function of new drivers"
    assert meter.energy_at_start(FakeGpu(3).uuid) == EnergyReading(wall_ns=4_000, energy_mj=5_123_456_789)
    assert meter.energy_at_start(FakeGpu(2).uuid) is None


LOST = FakeGpu(1)


@gpus(LOST)
def test_a_lost_gpu_is_reported_once_and_may_return(meter: GpuMeter, told: list[str]) -> None:
    answers = dict(LOST.figures)
    assert meter.sample(1) == [FULL]
    LOST.figures.update(dict.fromkeys(LOST.figures, error(pynvml.NVML_ERROR_GPU_IS_LOST)))
    assert [meter.sample(1) for _ in range(3)] == [[silent_sample(LOST.uuid)]] * 3
    assert told == [f"{LOST.uuid} does not answer"]
    LOST.figures.update(answers)
    assert meter.sample(1) == [FULL]


def test_a_missing_driver_is_reported_only_if_a_gpu_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    fakes.install(monkeypatch, init=error(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))
    meter = GpuMeter(0, told.append, limit_s=30)
    assert (meter.energy_at_start("GPU-any"), told) == (None, [])
    assert [meter.sample(0) for _ in range(3)] == [[]] * 3
    meter.close()
    assert told == ["the GPU is not metered: NVMLError_LibraryNotFound: NVML Shared Library Not Found"]


def test_a_fault_of_the_library_gives_samples_without_figures(monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    gpu = FakeGpu(1)
    fakes.install(monkeypatch, gpu)
    meter = GpuMeter(0, told.append, limit_s=30)
    assert meter.sample(1) == [FULL]
    gpu.figures["nvmlDeviceGetPowerUsage"] = RuntimeError("a fault")
    assert [meter.sample(1) for _ in range(2)] == [[silent_sample(gpu.uuid)]] * 2
    meter.close()
    assert told == ["the GPU is not metered: RuntimeError: a fault"]


def test_a_hanging_driver_is_not_waited_for_until_it_answers(monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    goes_on, asked = threading.Event(), 0

    def hangs() -> int:
        nonlocal asked
        asked += 1
        number = asked
        goes_on.wait(60)
        return number

    gpu = FakeGpu(1)
    fakes.install(monkeypatch, gpu)
    meter = GpuMeter(0, told.append, limit_s=0.2)
    gpu.figures[ENERGY] = hangs

    def answered() -> int:
        while not (samples := meter.sample(1)) or samples[0].energy_mj is None:
            pass
        return samples[0].energy_mj

    goes_on.set()
    before = answered()
    goes_on.clear()
    assert [meter.sample(1) for _ in range(3)] == [[silent_sample(gpu.uuid)]] * 3
    assert asked == before + 1
    goes_on.set()
    assert answered() > before + 1, "the late answer is of another moment"
    meter.close()
    assert told == ["the GPU did not answer within 0.2 s"]


def test_the_real_libraries_are_found_missing_or_answer() -> None:
    """Run in a process of its own, as the libraries stay loaded."""
    program = (
        "import sys\nfrom ledger_lab.ledger.meters.gpu import GpuMeter\nassert 'pynvml' not in sys.modules\n"
        "told = []\nmeter = GpuMeter(0, told.append, limit_s=30)\nsamples = meter.sample(0)\nmeter.close()\n"
        "assert 'torch' not in sys.modules\nassert len(samples) == 1 or len(told) == 1, told\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
