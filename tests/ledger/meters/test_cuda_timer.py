"""Marks and waits on a CUDA device: none while a graph is recorded. CUDA itself is emulated."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import warp

from ledger_lab.ledger.meters.compilation import metered_compilation
from ledger_lab.ledger.meters.cuda_timer import CudaTimer
from ledger_lab.ledger.meters.phases import Phase, PhaseClock


class Cuda:
    """CUDA's rules on recorded graphs: whoever waits or marks breaks the recording."""

    def __init__(self) -> None:
        self.waits: list[torch.device] = []
        self.marks = 0
        self.torch_records = False
        self.warp_device = SimpleNamespace(is_capturing=False)

    @property
    def records(self) -> bool:
        return self.torch_records or self.warp_device.is_capturing

    def synchronize(self, device: torch.device) -> None:
        assert not self.records, "operation not permitted when stream is capturing"
        self.waits.append(device)

    def is_current_stream_capturing(self) -> bool:
        assert not self.warp_device.is_capturing, "operation would make the legacy stream depend on a capturing stream"
        return self.torch_records

    def event(self, enable_timing: bool) -> SimpleNamespace:
        assert enable_timing
        return SimpleNamespace(record=self.record)

    def record(self, stream: object) -> None:
        assert not self.records and stream == "default stream of cuda:1"
        self.marks += 1


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    emulated = Cuda()
    monkeypatch.setattr(torch.cuda, "synchronize", emulated.synchronize)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", emulated.is_current_stream_capturing)
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: f"default stream of {device}")
    monkeypatch.setattr(torch.cuda, "Event", emulated.event)
    monkeypatch.setattr(warp, "get_device", lambda device: emulated.warp_device)
    return emulated


@pytest.mark.parametrize("recorder", ["torch", "warp"])
def test_a_recorded_graph_gets_no_mark_and_no_wait(cuda: Cuda, recorder: str) -> None:
    timer = CudaTimer("cuda:1")
    assert timer.mark() is not None
    timer.synchronize()
    assert (cuda.marks, cuda.waits) == (1, [torch.device("cuda:1")])
    cuda.torch_records, cuda.warp_device.is_capturing = recorder == "torch", recorder == "warp"
    assert timer.mark() is None
    timer.synchronize()
    assert (cuda.marks, len(cuda.waits)) == (1, 1)


def test_a_module_that_loads_while_a_query_is_recorded_is_timed_without_waiting(cuda: Cuda) -> None:
    """As Newton's ray casters do: the kernels of a query load at its first launch, while its graph is recorded."""
    timer = CudaTimer("cuda:1")
    clock = PhaseClock(0, synchronize=timer.synchronize)
    with metered_compilation(clock):
        cuda.warp_device.is_capturing = True
        with warp.ScopedTimer("Module ledger_lab load on device 'cuda:1'", print=False):
            pass
        cuda.warp_device.is_capturing = False
    assert clock.flush()[0]["compile"] > 0
    assert len(cuda.waits) == 1, "the flush waits again"


def test_marks_follow_the_windows_of_a_clock(cuda: Cuda) -> None:
    clock = PhaseClock(0)
    timer = CudaTimer("cuda:1")
    timer.wait = lambda mark: None  # type: ignore[method-assign]
    clock.follow(timer)
    began = cuda.marks
    with clock.window(Phase.MANAGE), clock.window(Phase.SIMULATE):
        pass
    assert cuda.marks == began + 4
