"""CUDA's devices are matched with NVML's, and no driver error becomes an exception."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pynvml
import pytest

from ledger_lab.ledger import DeviceSample, EnergyReading
from ledger_lab.ledger.meters import EnergyAtStart, NoDevices, NvmlDevices, open_devices, open_nvml
from ledger_lab.ledger.meters.devices import Devices
from tests.fakes import nvml as fakes
from tests.fakes.nvml import FakeGpu, error

A, B, C = "GPU-aaaa1111-0000", "GPU-aabb2222-0000", "GPU-cccc3333-0000"

SLICED = [
    FakeGpu("MIG-1111aaaa", ids=(1, 0)),
    None,
    FakeGpu("MIG-2222bbbb", ids=(2, 0)),
]


def never(line: str) -> None:
    raise AssertionError(line)


def uuids(devices: Devices) -> list[str]:
    return [sample.uuid for sample in devices.sample()]


def waited(devices: Devices, ready: Callable[[list[DeviceSample]], object]) -> list[DeviceSample]:
    """Sample until the thread of the devices has opened them."""
    deadline = time.monotonic() + 30
    while not ready(samples := devices.sample()):
        assert time.monotonic() < deadline, samples
        time.sleep(0.01)
    return samples


def test_the_fake_has_the_functions_of_the_real_library() -> None:
    for name, function in vars(fakes.FakeNvml).items():
        if name.startswith("nvml"):
            real = inspect.signature(getattr(pynvml, name))
            assert list(inspect.signature(function).parameters)[1:] in (list(real.parameters), ["handle", "sensor"])


@pytest.mark.parametrize(
    ("visible", "ordinals", "expected"),
    [
        (None, [0], [A]),
        (None, [2], [C]),
        (None, [0, 1, 2], [A, B, C]),
        ("2,0", [0, 1], [C, A]),
        (" 2 , 0 ", [0], [C]),
        ("0,2,-1,1", [0, 1], [A, C]),
        (C, [0], [C]),
        ("GPU-aab,GPU-c", [0, 1], [B, C]),
        (f"{B},0", [0, 1], [B, A]),
    ],
)
def test_devices_are_those_that_cuda_counts(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, ordinals: list[int], expected: list[str]
) -> None:
    fakes.install(monkeypatch, FakeGpu(A), FakeGpu(B), FakeGpu(C))
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert uuids(open_nvml(ordinals, environ, never)) == expected


@pytest.mark.parametrize(
    ("visible", "ordinal"),
    [
        ("", 0),
        ("-1", 0),
        ("NoDevFiles", 0),
        ("7", 0),
        ("0,2,-1,1", 2),
        ("GPU-aa", 0),
        ("GPU-ffff", 0),
        (A, 1),
        ("0,0", 1),
        pytest.param("9" * 5000, 0, id="an index of 5000 digits"),
    ],
)
def test_devices_invisible_to_cuda_are_not_metered(monkeypatch: pytest.MonkeyPatch, visible: str, ordinal: int) -> None:
    fake = fakes.install(monkeypatch, FakeGpu(A), FakeGpu(B), FakeGpu(C))
    told: list[str] = []
    devices = open_nvml([ordinal], {"CUDA_VISIBLE_DEVICES": visible}, told.append)
    assert isinstance(devices, NoDevices) and devices.sample() == []
    assert len(told) == 1 and f"CUDA_VISIBLE_DEVICES={visible}" in told[0] and f"cuda:{ordinal}" in told[0]
    assert fake.open == 0


def test_a_device_of_thousands_of_digits_is_no_device() -> None:
    assert isinstance(open_devices(f"cuda:{'9' * 5000}", environ={}), NoDevices)


def test_gpus_that_are_lost_or_of_another_job_have_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, foreign = error(pynvml.NVML_ERROR_GPU_IS_LOST), error(pynvml.NVML_ERROR_NO_PERMISSION)
    fakes.install(monkeypatch, foreign, FakeGpu(B), lost, FakeGpu(C))
    assert uuids(open_nvml([1], {"CUDA_VISIBLE_DEVICES": "0,1"}, never)) == [C]


def test_unequal_gpus_have_indices_only_in_the_order_of_the_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, FakeGpu(A, name="NVIDIA T400"), FakeGpu(B))
    told: list[str] = []
    assert isinstance(open_nvml([0], {}, told.append, wanted=False), NoDevices)
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in told[0]
    assert uuids(open_nvml([1], {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, never)) == [B]
    assert uuids(open_nvml([0], {"CUDA_VISIBLE_DEVICES": B}, never)) == [B]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, "MIG-1111aaaa"),
        ("0", "MIG-1111aaaa"),
        (A, "MIG-1111aaaa"),
        ("MIG-2222bbbb", "MIG-2222bbbb"),
        ("MIG-22", "MIG-2222bbbb"),
        (f"MIG-{A}/2/0", "MIG-2222bbbb"),
    ],
)
def test_a_mig_slice_has_its_own_name_and_no_figures_of_the_whole_gpu(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: str
) -> None:
    fakes.install(monkeypatch, FakeGpu(A, slices=SLICED))
    told: list[str] = []
    devices = open_nvml([0], {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}, told.append)
    (sample,) = devices.sample()
    assert sample == DeviceSample(
        uuid=expected,
        utilization=None,
        memory_used_bytes=10_000_000_000,
        power_w=None,
        energy_mj=None,
        temperature_c=61.0,
        sm_clock_mhz=1980,
    )
    assert len(told) == 1 and "MIG" in told[0]


def test_indices_cannot_name_slices_of_several_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, FakeGpu(A, slices=SLICED), FakeGpu(B))
    told: list[str] = []
    assert isinstance(open_nvml([0], {}, told.append), NoDevices)
    assert "UUID" in told[0]
    assert uuids(open_nvml([0], {"CUDA_VISIBLE_DEVICES": "MIG-2222bbbb"}, lambda line: None)) == ["MIG-2222bbbb"]


def test_figures_are_in_the_units_of_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = fakes.install(monkeypatch, FakeGpu(A))
    devices = open_nvml([0], {}, never)
    assert devices.sample() == [
        DeviceSample(
            uuid=A,
            utilization=0.87,
            memory_used_bytes=10_000_000_000,
            power_w=412.345,
            energy_mj=5_123_456_789,
            temperature_c=61.0,
            sm_clock_mhz=1980,
        )
    ]
    devices.close()
    assert fake.open == 0


def read_at_start(started_ns: int = 0) -> EnergyAtStart:
    """Return the counters after their thread has ended."""
    found = EnergyAtStart(started_ns, clock_ns=lambda: 5_000)
    found.close(limit_s=30)
    assert not found._thread.is_alive()
    return found


def test_counters_of_all_whole_gpus_are_read_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = FakeGpu(B)
    silent.figures["nvmlDeviceGetTotalEnergyConsumption"] = error(pynvml.NVML_ERROR_NOT_SUPPORTED)
    fake = fakes.install(
        monkeypatch, error(pynvml.NVML_ERROR_GPU_IS_LOST), silent, FakeGpu(C), FakeGpu(A, slices=SLICED)
    )
    found = read_at_start(started_ns=1_000)
    assert found.reading(C) == EnergyReading(wall_ns=4_000, energy_mj=5_123_456_789)
    assert [found.reading(uuid) for uuid in (A, B, "MIG-1111aaaa", "GPU-unknown")] == [None] * 4
    assert fake.open == 0


def test_a_missing_driver_has_no_counters_at_the_start_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fakes.install(monkeypatch, init=error(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))
    assert read_at_start().reading(A) is None
    assert capsys.readouterr() == ("", "")


def test_a_new_driver_reports_temperature_by_the_new_function(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(A)
    del gpu.figures["nvmlDeviceGetTemperature"]
    gpu.figures["nvmlDeviceGetTemperatureV"] = 55
    fakes.install(monkeypatch, gpu)
    assert open_nvml([0], {}, never).sample()[0].temperature_c == 55.0


def test_a_missing_meter_is_none_and_other_meters_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(A)
    gpu.figures["nvmlDeviceGetTotalEnergyConsumption"] = error(pynvml.NVML_ERROR_NOT_SUPPORTED)
    fakes.install(monkeypatch, gpu)
    (sample,) = open_nvml([0], {}, never).sample()
    assert (sample.energy_mj, sample.power_w) == (None, 412.345)


def test_a_lost_gpu_is_reported_once_and_may_return(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, other = FakeGpu(A), FakeGpu(B)
    fakes.install(monkeypatch, gpu, other)
    told: list[str] = []
    devices = open_nvml([0, 1], {}, told.append)
    assert isinstance(devices, NvmlDevices) and devices.sample()[0].power_w == 412.345
    answers = dict(gpu.figures)
    gpu.figures.update(dict.fromkeys(gpu.figures, error(pynvml.NVML_ERROR_GPU_IS_LOST)))
    for _ in range(3):
        lost, healthy = devices.sample()
        assert lost == DeviceSample(
            uuid=A,
            utilization=None,
            memory_used_bytes=None,
            power_w=None,
            energy_mj=None,
            temperature_c=None,
            sm_clock_mhz=None,
        )
        assert healthy.power_w == 412.345
    assert told == [f"{A} does not answer"]
    gpu.figures.update(answers)
    assert devices.sample()[0].energy_mj == 5_123_456_789


@pytest.mark.parametrize(("device", "lines"), [("cuda:0", 1), ("cuda", 1), (None, 0)])
def test_a_missing_driver_is_reported_once_if_cuda_was_requested(
    monkeypatch: pytest.MonkeyPatch, device: str | None, lines: int
) -> None:
    fakes.install(monkeypatch, init=error(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))
    told: list[str] = []
    devices = open_devices(device, environ={}, tell=told.append)
    for _ in range(3):
        waited(devices, lambda _: len(told) >= lines)
    devices.close()
    assert devices.sample() == []
    assert told == ["GPUs are not metered: NVML Shared Library Not Found"] * lines


def test_the_devices_of_a_training_are_found_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch, FakeGpu(A), FakeGpu(B), FakeGpu(C))
    for device, processes, expected in (("cuda:1", 1, [B]), ("cuda", 1, [A]), (None, 1, [A]), ("cuda:0", 3, [A, B, C])):
        devices = open_devices(device, local_processes=processes, environ={}, tell=never)
        assert [sample.uuid for sample in waited(devices, bool)] == expected
        devices.close()


def test_a_training_on_the_cpu_does_not_open_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    devices = open_devices("cpu", tell=never)
    assert isinstance(devices, NoDevices) and devices.sample() == []


def test_the_real_library_is_found_missing_or_answers() -> None:
    """Run in a process of its own, as the library stays loaded."""
    program = (
        "import sys\nfrom ledger_lab.ledger.meters import open_nvml\nassert 'pynvml' not in sys.modules\n"
        "told = []\ndevices = open_nvml([0], {}, told.append)\n"
        "assert 'torch' not in sys.modules\nassert len(devices.sample()) == 1 or len(told) == 1, told\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))
