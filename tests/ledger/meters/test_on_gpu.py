"""Clocks and meters on a real GPU. Other tests emulate it."""

from __future__ import annotations

import time

import pytest
import torch

from ledger_lab.ledger.meters.cuda_timer import CudaTimer
from ledger_lab.ledger.meters.gpu import GpuMeter

pytestmark = pytest.mark.gpu

DEVICE = "cuda:0"


def test_marks_enclose_the_work_of_torch_and_warp() -> None:
    import warp

    timer = CudaTimer(DEVICE)
    ones = torch.ones(4096, 4096, device=DEVICE)
    numbers = warp.zeros(1 << 26, dtype=float, device=DEVICE)
    timer.synchronize()
    first = timer.mark()
    for _ in range(20):
        ones @ ones
    between = timer.mark()
    for _ in range(20):
        numbers.fill_(1.0)
    last = timer.mark()
    timer.wait(last)
    assert timer.elapsed_ns(first, between) > 100_000
    assert timer.elapsed_ns(between, last) > 100_000


def test_nothing_is_marked_or_awaited_while_warp_records_a_graph() -> None:
    import warp

    timer = CudaTimer(DEVICE)
    numbers = warp.zeros(16, dtype=float, device=DEVICE)
    with warp.ScopedCapture(device=DEVICE) as capture:
        numbers.fill_(1.0)
        assert timer.recording
        assert timer.mark() is None
        timer.synchronize()
    assert timer.mark() is not None
    warp.capture_launch(capture.graph)
    assert numbers.numpy().tolist() == 16 * [1.0]


def test_nvml_sees_the_memory_that_this_process_takes() -> None:
    told: list[str] = []
    meter = GpuMeter(time.perf_counter_ns(), told.append, limit_s=30)
    torch.zeros(1, device=DEVICE)
    before = meter.sample(0)
    held = torch.zeros(1 << 28, dtype=torch.uint8, device=DEVICE)
    after = meter.sample(0)
    meter.close()
    if not before:
        pytest.skip(f"NVML cannot be used: {told}")
    assert before[0].uuid.endswith(str(torch.cuda.get_device_properties(0).uuid))
    before, after = before[0], after[0]
    assert before.memory_used_bytes is not None and after.memory_used_bytes is not None
    assert after.memory_used_bytes - before.memory_used_bytes >= held.numel() // 2
