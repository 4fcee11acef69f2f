"""Norms of gradients that overflow, or that mixed precision scales; :mod:`tests.fakes.toy_ranks` checks the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from ledger_lab.training.runners.collectives import GradientAveraging, GradientNorms, NormSums


class Learner:
    """Averages its gradient in two pieces."""

    def __init__(self) -> None:
        self.gradient = torch.zeros(4)

    def average(self) -> None:
        for piece in self.gradient.split(2):
            dist.all_reduce(piece)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path) -> Iterator[None]:
    """Join a group of one process, so that the average is the process's own gradient."""
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_gradient_is_measured_without_its_scale_and_only_where_it_is_averaged() -> None:
    learner = Learner()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    collective = dist.all_reduce
    norms = GradientNorms(GradientAveraging(calls=[(learner, "average")], scaler=scaler))
    with norms.measured():
        for value in (1.0, float("inf"), float("nan"), 2.0):
            learner.gradient = 8.0 * torch.full((4,), value)
            learner.average()
            dist.all_reduce(torch.ones(3))
    taken = norms.take()
    assert taken.steps == 2, "a step that overflows does not count"
    assert (taken.own, taken.average) == (pytest.approx(20.0), pytest.approx(20.0))
    assert norms.take() == NormSums()
    assert dist.all_reduce is collective
