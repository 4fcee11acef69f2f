"""Samples to the target as a function of the batch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ledger_lab.studies.scaling import BatchFit, TargetRun

BATCHES = (1000, 2000, 4000, 8000)


def runs(critical: float, *, limit: float = math.inf, spread: float = 0.1, seeds: int = 3) -> list[TargetRun]:
    """Simulate trainings of each batch; E_min is a million samples."""
    generator, found = np.random.default_rng(2), []
    for batch in BATCHES * seeds:
        samples = 1e6 * (1 + batch / critical) * math.exp(spread * generator.standard_normal())
        found.append(TargetRun(batch=batch, samples=min(samples, limit), reached=samples < limit, limit=limit))
    return found


def test_the_critical_batch_doubles_the_samples() -> None:
    fit = BatchFit(runs(4000.0, spread=1e-4))
    assert fit.fewest_samples.value == pytest.approx(1e6, rel=1e-3)
    assert fit.critical_batch.value == pytest.approx(4000, rel=1e-3)
    assert fit.at(4000).value == pytest.approx(2e6, rel=1e-3)


def test_runs_that_missed_the_target_count_as_censored() -> None:
    with_limit = runs(4000.0, limit=2.2e6)
    fit = BatchFit(with_limit)
    assert fit.censored == sum(not run.reached for run in with_limit) > 2
    low, high = fit.critical_batch.interval or (1, 0)
    assert low < 4000 < high
    dropped = BatchFit([run for run in with_limit if run.reached])
    assert dropped.critical_batch.value > fit.critical_batch.value, "leaving them out praises large batches"


def test_the_critical_batch_is_unbounded_if_samples_do_not_grow() -> None:
    low, high = BatchFit(runs(1e9)).critical_batch.interval or (0, 0)
    assert low > 8000 and high == math.inf


def test_without_repetitions_there_is_no_interval() -> None:
    assert BatchFit(runs(4000.0, seeds=1)).critical_batch.interval is None


def test_what_the_runs_cannot_tell_is_refused() -> None:
    with pytest.raises(ValueError, match="3 batches with runs that reached it, and there are 2"):
        BatchFit([run for run in runs(4000.0) if run.batch < 4000])
    fit = BatchFit(runs(4000.0))
    for batch in (999, 8001):
        with pytest.raises(ValueError, match="outside of the measured batches, 1000 to 8000"):
            fit.at(batch)


def test_contradicting_figures_are_refused() -> None:
    for samples, reached in ((0.0, True), (math.inf, True), (2.0, True), (math.nan, False)):
        with pytest.raises(ValueError, match="contradicts itself"):
            TargetRun(batch=1, samples=samples, reached=reached, limit=2.0)
