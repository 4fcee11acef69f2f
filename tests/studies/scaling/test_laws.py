"""How rates grow with the number of processes, and samples to the target with the batch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ledger_lab.studies.scaling.laws import BatchFit, Law, RateFit, TargetRun

PUBLISHED = (243_988.0, 422_000.0, 608_000.0, 896_156.0)
"""Environment steps per second of Isaac-Cartpole-Direct on 1, 2, 4 and 8 GPUs."""


def runs(
    law: Law, sizes: list[int], contention: float, spread: float, pairs: float = 0.0
) -> tuple[list[int], list[float]]:
    """Simulate three runs of each size; each pair of processes may cost further time, which no law contains."""
    generator, each = np.random.default_rng(1), [size for size in sizes for _ in range(3)]
    rates = []
    for size in each:
        if law is Law.GUSTAFSON:
            rate = size - contention * (size - 1)
        else:
            rate = size / (1 + contention * (size - 1) + pairs * size * (size - 1))
        rates.append(500.0 * rate * math.exp(spread * generator.standard_normal()))
    return each, rates


def test_the_interval_holds_the_truth_and_narrows_with_the_spread() -> None:
    widths = []
    for spread in (0.1, 0.01):
        low, high = RateFit(Law.AMDAHL, *runs(Law.AMDAHL, [1, 2, 4, 8], 0.1, spread)).contention.interval or (1, 0)
        assert low < 0.1 < high
        widths.append(high - low)
    assert widths[1] < 0.2 * widths[0]


def test_published_rates_without_repetitions_have_no_interval() -> None:
    fit = RateFit(Law.AMDAHL, [1, 2, 4, 8], PUBLISHED)
    assert fit.contention.value == pytest.approx(0.175, abs=0.001)
    assert fit.contention.interval is None and fit.misfit_p_value is None
    assert fit.at(8).interval is None
    assert fit.largest_deviation == pytest.approx(0.049, abs=0.001)


def test_nothing_is_predicted_beyond_the_measured_sizes() -> None:
    fit = RateFit(Law.AMDAHL, *runs(Law.AMDAHL, [2, 4, 8], 0.1, 0.01))
    low, high = fit.at(8).interval or (0, 0)
    assert low < 500 * 8 / 1.7 < high
    assert fit.single_rate is None
    for far in (0, 1, 9, 16):
        with pytest.raises(ValueError, match="outside of the measured sizes, 2 to 8"):
            fit.at(far)


def test_a_law_that_does_not_fit_predicts_nothing() -> None:
    wrong = RateFit(Law.AMDAHL, *runs(Law.AMDAHL, [1, 2, 4, 8, 16, 32], 0.02, 0.01, pairs=0.01))
    assert not wrong.fits
    with pytest.raises(ValueError, match="Amdahl.s law does not fit the runs"):
        wrong.at(8)


BATCHES = (1000, 2000, 4000, 8000)


def trained(critical: float, *, limit: float = math.inf, spread: float = 0.1, seeds: int = 3) -> list[TargetRun]:
    """Simulate trainings of each batch; E_min is a million samples."""
    generator, found = np.random.default_rng(2), []
    for batch in BATCHES * seeds:
        samples = 1e6 * (1 + batch / critical) * math.exp(spread * generator.standard_normal())
        found.append(TargetRun(batch=batch, samples=min(samples, limit), reached=samples < limit, limit=limit))
    return found


def test_the_critical_batch_doubles_the_samples() -> None:
    fit = BatchFit(trained(4000.0, spread=1e-4))
    assert fit.fewest_samples.value == pytest.approx(1e6, rel=1e-3)
    assert fit.critical_batch.value == pytest.approx(4000, rel=1e-3)
    assert fit.at(4000).value == pytest.approx(2e6, rel=1e-3)


def test_runs_that_missed_the_target_count_as_censored() -> None:
    with_limit = trained(4000.0, limit=2.2e6)
    fit = BatchFit(with_limit)
    assert fit.censored == sum(not run.reached for run in with_limit) > 2
    low, high = fit.critical_batch.interval or (1, 0)
    assert low < 4000 < high
    dropped = BatchFit([run for run in with_limit if run.reached])
    assert dropped.critical_batch.value > fit.critical_batch.value, "leaving them out praises large batches"


def test_the_critical_batch_is_unbounded_if_samples_do_not_grow() -> None:
    low, high = BatchFit(trained(1e9)).critical_batch.interval or (0, 0)
    assert low > 8000 and high == math.inf


def test_what_the_runs_cannot_tell_is_refused() -> None:
    with pytest.raises(ValueError, match="3 batches with runs that reached it, and there are 2"):
        BatchFit([run for run in trained(4000.0) if run.batch < 4000])
    fit = BatchFit(trained(4000.0))
    for batch in (999, 8001):
        with pytest.raises(ValueError, match="outside of the measured batches, 1000 to 8000"):
            fit.at(batch)
