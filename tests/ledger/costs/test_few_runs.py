"""Intervals of few runs: those of shares are exact; those of a bootstrap are wide enough."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from ledger_lab.ledger.costs.few_runs import exact_interval, percentile_levels


def test_the_interval_is_that_of_scipy() -> None:
    for count in range(4):
        expected = binomtest(count, 3).proportion_ci()
        assert exact_interval(count, 3) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("each", [1, 2, 5])
def test_it_holds_for_the_mean_share_of_two_tasks_of_unequal_difficulty(each: int) -> None:
    intervals = [exact_interval(count, 2 * each) for count in range(2 * each + 1)]
    for easy, hard in ((0.9, 0.1), (0.5, 0.5), (0.99, 0.7)):
        chances = np.convolve(binom.pmf(range(each + 1), each, easy), binom.pmf(range(each + 1), each, hard))
        held = [low <= (easy + hard) / 2 <= high for low, high in intervals]
        assert chances[held].sum() >= 0.95


# norm.cdf(sqrt(n / (n - 1)) * t.ppf(0.025, n - 1)) of scipy.stats
@pytest.mark.parametrize(("runs", "level"), [(5, 0.000954), (10, 0.008551), (20, 0.015881), (10_000, 0.02498)])
def test_percentile_levels_match_the_t_distribution(runs: int, level: float) -> None:
    low, high = percentile_levels(runs)
    assert low == pytest.approx(level, rel=0.001)
    assert high == 1 - low


@pytest.mark.parametrize("runs", [5, 10])
def test_the_interval_of_few_runs_covers_the_true_value(runs: int) -> None:
    random = np.random.default_rng(1)
    times = random.normal(0.0, 0.3, size=(1000, runs))  # logarithms, whose true mean is 0
    means = np.stack([each[random.integers(runs, size=(2000, runs))].mean(axis=1) for each in times])
    low, high = np.quantile(means, percentile_levels(runs), axis=1, method="inverted_cdf")
    usual_low, usual_high = np.quantile(means, [0.025, 0.975], axis=1, method="inverted_cdf")
    assert ((low <= 0) & (high >= 0)).mean() > 0.92
    assert ((usual_low <= 0) & (usual_high >= 0)).mean() < 0.91
