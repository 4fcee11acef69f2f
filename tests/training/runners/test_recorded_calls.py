"""Gradient norms are recorded without those of skipped steps, and a function is divided into phases."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.training.runners.recorded_calls import largest_norm, phase_until_call, recorded_calls


def test_the_largest_norm_before_clipping_is_returned_once() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    with recorded_calls(torch.nn.utils, "clip_grad_norm_") as norms:
        for gradient in ([3.0, 4.0], [0.6, 0.8]):
            weight.grad = torch.tensor(gradient)
            torch.nn.utils.clip_grad_norm_([weight], 1.0)
        assert weight.grad.norm() <= 1.0
    torch.nn.utils.clip_grad_norm_([weight], 1.0)
    assert len(norms) == 2, "nothing is heard of afterwards"
    largest = largest_norm(norms)
    assert largest is not None and float(largest) == 5.0
    assert largest_norm(norms) is None


def test_only_norms_of_steps_that_a_scaler_skips_are_left_out() -> None:
    spoiled = [torch.tensor(math.inf), torch.tensor(2.0), torch.tensor(math.nan)]
    scaler = torch.amp.GradScaler("cpu")
    told = largest_norm(list(spoiled), scaler)
    assert told is not None and float(told) == 2.0
    assert largest_norm(spoiled[:1], scaler) is None, "no step was taken"
    for other in (None, torch.amp.GradScaler("cpu", enabled=False)):
        told = largest_norm(list(spoiled), other)
        assert told is not None and not math.isfinite(float(told))


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_a_phase_lasts_until_the_first_call_or_the_end(calls: int) -> None:
    now = iter(range(100))
    clock = PhaseClock(0, base=Phase.LEARN, clock_ns=lambda: next(now))
    owner = SimpleNamespace(sample=lambda: clock._stack[-1])
    library = owner.sample
    with phase_until_call(clock, Phase.RETURNS, owner, "sample"):
        assert clock._stack[-1] is Phase.RETURNS
        assert [owner.sample() for _ in range(calls)] == [Phase.LEARN] * calls
    assert clock._stack == [Phase.LEARN] and owner.sample is library
