"""The noise of a run's gradients: from the norms of its processes, and from rows."""

from __future__ import annotations

import io
import json
import math
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ledger_lab.ledger import AttemptStarted, GradientNorms, Journal, StateRestored, StateSaved, read_ledger
from ledger_lab.reports import RunSummary, summarize_run
from ledger_lab.reports.ranks import gradient_noise_scale
from ledger_lab.reports.terminal_table import render_report
from ledger_lab.studies.scaling.positive_fit import Floats
from tests.fakes.ledgers import SECOND, write_run

PARAMETERS = 1000
MINIBATCH = 16
"""Samples of one process per gradient step: those of the declaration."""


def noisy(scales: list[float]) -> list[list[GradientNorms]]:
    """Return the rows of two processes, one per noise scale, of gradients of norm 1 with that noise."""
    random = np.random.default_rng(0)
    rows: list[list[GradientNorms]] = [[], []]
    for iteration, scale in enumerate(scales, start=1):
        true = np.full(PARAMETERS, PARAMETERS**-0.5)
        both = true + random.normal(scale=(scale / MINIBATCH / PARAMETERS) ** 0.5, size=(20, 2, PARAMETERS))
        own, average = np.square(both).sum(axis=2).mean(axis=0), np.square(both.mean(axis=1)).sum(axis=1).mean()
        for of_rank, square in zip(rows, own, strict=True):
            norms = {"own_square": float(square), "average_square": float(average)}
            of_rank.append(GradientNorms(iteration=iteration, steps=20, **norms))
    return rows


@pytest.fixture
def summarize(tmp_path: Path) -> Callable[[list[list[GradientNorms]]], RunSummary]:
    """Write a run of two processes, and summarize it."""

    def write_and_summarize(rows: list[list[GradientNorms]]) -> RunSummary:
        run_dir = write_run(tmp_path, "aa", world_size=2, num_envs=8, horizon=4, minibatches=2)
        for rank, own in enumerate(rows):
            with Journal(run_dir / f"journal-2-{rank}.jsonl") as journal:
                journal.append(AttemptStarted(run_id="aa", attempt=2, rank=rank, pid=2, host="a", wall_ns=SECOND))
                for row in own:
                    journal.append(row)
        (run,) = read_ledger(tmp_path).runs
        return summarize_run(run)

    return write_and_summarize


def test_the_noise_of_each_third_is_found(summarize: Callable[[list[list[GradientNorms]]], RunSummary]) -> None:
    scales = [50.0] * 20 + [100.0] * 20 + [200.0] * 20
    summary = summarize(noisy(scales))
    assert [(part.first_iteration, part.last_iteration, part.steps) for part in summary.gradient_noise] == [
        (1, 20, 400),
        (21, 40, 400),
        (41, 60, 400),
    ]
    for part, scale in zip(summary.gradient_noise, (50.0, 100.0, 200.0), strict=True):
        assert part.scale == pytest.approx(scale, rel=0.1)
        assert part.scale is not None and part.interval is not None and part.interval[1] is not None
        assert part.interval[0] < part.scale < part.interval[1]
        assert part.step_samples == 2 * MINIBATCH
    assert summary.gradient_noise_scale == summary.gradient_noise[-1].scale
    console = Console(width=250, file=io.StringIO())
    with console.capture() as shown:
        console.print(render_report([summary], [], 250))
    assert "noise scale" in shown.get()


def test_noise_that_hides_the_gradient_is_unlimited_and_valid_json(
    summarize: Callable[[list[list[GradientNorms]]], RunSummary],
) -> None:
    hidden = GradientNorms(iteration=1, steps=1, own_square=4.0, average_square=1.0)
    summary = summarize([[hidden], [hidden]])
    (part,) = summary.gradient_noise
    assert (part.scale, part.interval) == (None, None)
    assert "Infinity" not in json.dumps(summary.to_json(), default=str)


def test_stretches_of_different_steps_do_not_count(
    summarize: Callable[[list[list[GradientNorms]]], RunSummary],
) -> None:
    first, second = noisy([50.0] * 4)
    shorter = GradientNorms(iteration=2, steps=19, own_square=1.0, average_square=second[1].average_square)
    summary = summarize([first, [second[0], shorter, second[2]]])
    assert [(part.first_iteration, part.last_iteration) for part in summary.gradient_noise] == [(1, 3)]


def test_stretches_after_the_state_that_a_later_attempt_resumes_from_are_lost(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", world_size=2, num_envs=8, horizon=4, minibatches=2)
    state = {"sha256": "0" * 64, "iteration": 10, "env_steps": 1}
    saved = StateSaved(**state, size_bytes=1, wall_ns=2 * SECOND)  # type: ignore[arg-type]
    restored = StateRestored(**state, attempt=2, saved_wall_ns=2 * SECOND, reasons=[], wall_ns=SECOND)  # type: ignore[arg-type]
    rows = noisy([50.0] * 20)
    for attempt, kept, row in ((2, slice(0, 20), saved), (3, slice(10, 12), restored)):
        for rank, own in enumerate(rows):
            with Journal(run_dir / f"journal-{attempt}-{rank}.jsonl") as journal:
                begun = AttemptStarted(run_id="aa", attempt=attempt, rank=rank, pid=2, host="a", wall_ns=SECOND)
                for each in (begun, *([row] if rank == 0 else []), *own[kept]):
                    journal.append(each)
    (run,) = read_ledger(tmp_path).runs
    assert summarize_run(run).gradient_noise[-1].last_iteration == 12


def norms(scale: float, *, steps: int = 400, processes: int = 4, batch: int = 100) -> tuple[Floats, Floats]:
    """Simulate squared norms of gradients whose true norm is 1 and whose noise scale is known."""
    generator, parameters = np.random.default_rng(3), 50
    true = np.full(parameters, math.sqrt(1 / parameters))
    noise = generator.standard_normal((steps, processes, parameters)) * math.sqrt(scale / batch / parameters)
    gradients = true + noise
    return (gradients**2).sum(axis=2), (gradients.mean(axis=1) ** 2).sum(axis=1)


@pytest.mark.parametrize("scale", [10.0, 1000.0])
def test_the_scale_is_found(scale: float) -> None:
    value, interval = gradient_noise_scale(*norms(scale), 100, block=10)
    low, high = interval or (0, 0)
    assert low < scale < high
    assert value == pytest.approx(scale, rel=0.2)


def test_the_interval_of_few_blocks_contains_the_scale() -> None:
    generator, missed = np.random.default_rng(5), 0
    for _ in range(500):
        gradients = generator.standard_normal((10, 1, 20)) + generator.standard_normal((10, 2, 20))
        own, average = (gradients**2).sum(axis=2), (gradients.mean(axis=1) ** 2).sum(axis=1)
        low, high = gradient_noise_scale(own, average, 100, block=1)[1] or (0.0, 0.0)
        missed += not low <= 100.0 <= high  # a gradient of 100 samples has as much noise as signal
    assert missed / 500 < 0.07


def test_a_long_training_takes_little_memory() -> None:
    generator = np.random.default_rng(4)
    own = 2.0 + 0.1 * generator.standard_normal((20_000, 2))
    tracemalloc.start()
    try:
        value, interval = gradient_noise_scale(own, np.full(20_000, 1.5), 100, block=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert value == pytest.approx(100.0, rel=0.01) and interval is not None
    assert peak < 100e6
