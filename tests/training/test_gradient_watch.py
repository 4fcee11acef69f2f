"""The norms of all gradient steps of a training in several processes are recorded, in stretches of equal length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ledger_lab.training.launch import World
from ledger_lab.training.ranks import GradientWatch
from ledger_lab.training.runners.collectives import NormSums

STEPS = 20
"""Gradient steps of an iteration."""


class Norms:
    """Stands for the norms of a training, whose squares are 3 for a process and 2 for the average."""

    def __init__(self, averaging: object) -> None:
        """Keep nothing."""

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure nothing."""
        yield

    def take(self) -> NormSums:
        """Return the sums of an iteration."""
        return NormSums(steps=STEPS, own=3.0 * STEPS, average=2.0 * STEPS)


class Trainer:
    """Averages gradients."""

    def averaging(self) -> object:
        """Return something."""
        return object()


def rows(monkeypatch: pytest.MonkeyPatch, iterations: int, *, processes: int = 2) -> list[Any]:
    """Return the rows of a training of at most 180 iterations, in stretches of three."""
    monkeypatch.setattr("ledger_lab.training.ranks.GradientNorms", Norms)
    written: list[Any] = []
    watch = GradientWatch(World(size=processes), 180, written.append)
    with watch.measuring(Trainer()):  # type: ignore[arg-type]
        for iteration in range(1, iterations + 1):
            watch.after_iteration(iteration)
    return [(row.iteration, row.steps, row.own_square, row.average_square) for row in written]


@pytest.mark.parametrize(
    ("iterations", "stretches"),
    [(6, [(3, 3), (6, 3)]), (8, [(3, 3), (6, 3), (8, 2)]), (1, [(1, 1)]), (0, [])],
)
def test_a_training_that_ends_early_records_its_last_stretch(
    monkeypatch: pytest.MonkeyPatch, iterations: int, stretches: list[tuple[int, int]]
) -> None:
    assert rows(monkeypatch, iterations) == [(last, count * STEPS, 3.0, 2.0) for last, count in stretches]


def test_a_whole_training_has_no_row_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [row[0] for row in rows(monkeypatch, 180)] == [*range(3, 181, 3)]


def test_a_single_process_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows(monkeypatch, 8, processes=1) == []
