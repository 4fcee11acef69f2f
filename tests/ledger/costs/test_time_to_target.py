"""Medians, means, curves and tests of times to the target count the runs that missed it."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from scipy.stats import CensoredData, binomtest, ecdf, logrank

from ledger_lab.ledger.costs.time_to_target import (
    MedianTime,
    RunTime,
    kaplan_meier,
    log_rank_p_value,
    log_rank_statistic,
    median_time_to_target,
    restricted_mean_time,
    time_curve,
)


def times(*seconds: float) -> list[RunTime]:
    """Build runs by their times; a negative one never got there."""
    return [RunTime(wall_s=abs(s) + 1.0 if s > 0 else abs(s), to_target_s=s if s > 0 else None) for s in seconds]


def exact(median_s: float) -> MedianTime:
    return MedianTime(median_s=median_s, is_exact=True, more_than_s=None)


def estimate(median_s: float) -> MedianTime:
    return MedianTime(median_s=median_s, is_exact=False, more_than_s=None)


def more_than(bound_s: float) -> MedianTime:
    return MedianTime(median_s=None, is_exact=False, more_than_s=bound_s)


@pytest.mark.parametrize(
    ("runs", "median"),
    [
        ((40.0,), exact(40.0)),
        ((40.0, 60.0), exact(50.0)),
        ((60.0, 40.0, 50.0), exact(50.0)),
        ((40.0, -120.0, 50.0), exact(50.0)),
        ((40.0, -50.0, 50.0), exact(50.0)),
        # Of an even number, both in the middle count: had the run that missed needed 601 s, it would be one of them.
        ((60.0, 180.0, 1000.0, -600.0), estimate(590.0)),
        ((60.0, 180.0, 1000.0, -1000.0), exact(590.0)),
        # A run that ended early leaves the others: the curve falls to 1/2 at 40, and to 0 at 50.
        ((40.0, -5.0, 50.0), estimate(45.0)),
        # 4 of 5, then of 3 left 2, then 1: 0.8, 0.53, 0.27
        ((10.0, -15.0, 20.0, 30.0, 40.0), estimate(30.0)),
        # Half of the runs missed the target, and yet the curve falls below 1/2: 2/3, 1/3.
        ((40.0, 45.0, -19.0, -20.0, -120.0), estimate(45.0)),
        ((-120.0,), more_than(120.0)),
        ((40.0, -60.0), more_than(50.0)),
        ((40.0, -60.0, -120.0), more_than(60.0)),
        ((40.0, -19.0, -120.0), more_than(40.0)),
    ],
)
def test_runs_that_missed_the_target_count_in_the_median(runs: tuple[float, ...], median: MedianTime) -> None:
    assert median_time_to_target(times(*runs)) == median
    assert median_time_to_target(times(*reversed(runs))) == median


def test_the_median_is_that_of_a_published_example() -> None:
    # Remission of leukaemia under 6-MP, Freireich et al. 1963, as in Kalbfleisch & Prentice: the median is 23 weeks.
    weeks = (6, 6, 6, -6, 7, -9, 10, -10, -11, 13, 16, -17, -19, -20, 22, 23, -25, -32, -32, -34, -35)
    assert median_time_to_target(times(*map(float, weeks))) == estimate(23.0)
    placebo = (1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23)
    assert median_time_to_target(times(*map(float, placebo))) == exact(8.0)
    assert log_rank_p_value(times(*map(float, weeks)), times(*map(float, placebo))) == pytest.approx(0.001)


def test_an_estimate_lies_between_what_early_ends_can_hide() -> None:
    generator = np.random.default_rng(3)
    kinds = set()
    for _ in range(300):
        runs = times(*(generator.permutation(40)[:7] + 1.0) * generator.choice([1, 1, -1], 7))
        found = median_time_to_target(runs)
        if found.median_s is None:
            continue
        kinds.add(found.is_exact)
        soonest = statistics.median(run.observed_s for run in runs)
        latest = statistics.median(math.inf if run.to_target_s is None else run.to_target_s for run in runs)
        assert soonest <= found.median_s <= latest
    assert kinds == {True, False}


@pytest.mark.parametrize(
    ("runs", "mean", "limit"),
    [
        ((40.0, 60.0), 50.0, 60.0),
        ((40.0, -100.0), 70.0, 100.0),
        ((-30.0, -100.0), 100.0, 100.0),
        # Until 40 all, until 50 half of them: the run that ended after 5 s counts as neither.
        ((40.0, -5.0, 50.0), 45.0, 50.0),
    ],
)
def test_the_mean_is_restricted_to_the_longest_run(runs: tuple[float, ...], mean: float, limit: float) -> None:
    assert restricted_mean_time(times(*runs)) == (pytest.approx(mean), limit)
    assert restricted_mean_time(times(*reversed(runs))) == (pytest.approx(mean), limit)


def test_the_curve_rises_with_each_run_that_reached_the_target() -> None:
    curve = time_curve(times(40.0, -5.0, 50.0, -60.0))
    assert curve.t == [5.0, 40.0, 50.0, 60.0]
    assert curve.share == pytest.approx([0.0, 1 / 3, 2 / 3, 2 / 3])
    # Of four runs, 0, 1, 2 and 2 reached the target by then, and 1, 2, 3 and 4 reached it or had ended.
    exact = [binomtest(k, 4).proportion_ci() for k in range(5)]
    assert curve.low == pytest.approx([exact[k].low for k in (0, 1, 2, 2)])
    assert curve.high == pytest.approx([exact[k].high for k in (1, 2, 3, 4)])


@pytest.mark.parametrize("runs", [2, 3, 5])
def test_the_interval_of_the_curve_holds_the_true_share_whatever_ends_runs_early(runs: int) -> None:
    generator, held = np.random.default_rng(1), 0
    for _ in range(400):
        slow = generator.random(runs) < 0.5  # half of the runs take 10 times as long, and are often given up
        reached = np.where(slow, 10.0, 1.0) * np.exp(0.1 * generator.standard_normal(runs))
        ended = np.where(slow & (generator.random(runs) < 0.7), 2.0, np.inf)
        curve = time_curve(
            [RunTime(wall_s=min(t, e), to_target_s=None if e < t else t) for t, e in zip(reached, ended, strict=True)]
        )
        last = np.searchsorted(curve.t, 3.0, side="right") - 1
        held += last < 0 or curve.low[last] <= 0.5 <= curve.high[last]
    assert held >= 0.95 * 400


def test_the_curve_is_that_of_scipy() -> None:
    generator = np.random.default_rng(4)
    for count in range(1, 30):
        runs = times(*(generator.integers(1, 9, count) * generator.choice([1, 1, -1], count)).astype(float))
        missed = [run.to_target_s is None for run in runs]
        theirs = ecdf(CensoredData.right_censored([run.observed_s for run in runs], missed)).sf
        ours = kaplan_meier(runs)
        assert [time_s for time_s, _ in ours] == theirs.quantiles.tolist()
        assert [share for _, share in ours] == pytest.approx(theirs.probabilities.tolist(), abs=1e-12)


def log_rank_of_scipy(runs: list[RunTime], ours: tuple[int, ...]) -> float:
    """Return the statistic for one way to split the runs."""
    groups = [[run for place, run in enumerate(runs) if (place in ours) == own] for own in (True, False)]
    data = [
        CensoredData.right_censored([run.observed_s for run in group], [run.to_target_s is None for run in group])
        for group in groups
    ]
    with np.errstate(invalid="ignore"):  # 0 / 0 where a split cannot show a difference
        return abs(float(logrank(*data).statistic))


def test_the_log_rank_statistic_is_that_of_scipy_for_every_split() -> None:
    generator = np.random.default_rng(5)
    for _ in range(10):
        runs = times(*(generator.permutation(8)[:7] // 2 + 1.0) * generator.choice([1, 1, -1], 7))
        if sum(run.to_target_s is not None for run in runs) < 2:
            continue
        statistic = log_rank_statistic(runs)
        splits = np.array([*itertools.combinations(range(7), 3)])
        rest = np.array([[each for each in range(7) if each not in split] for split in splits])
        expected = [log_rank_of_scipy(runs, tuple(split)) for split in splits]
        known = np.isfinite(expected)  # 0 / 0 in SciPy
        assert known.any()
        assert statistic(splits, rest)[known] == pytest.approx(np.array(expected)[known])


def test_the_log_rank_test_counts_all_splits_of_few_runs() -> None:
    a, b = times(10.0, 12.0, -30.0), times(5.0, 6.0, 11.0)
    splits = [log_rank_of_scipy([*a, *b], split) for split in itertools.combinations(range(6), 3)]
    as_large = sum(each >= splits[0] - 1e-9 for each in splits)
    assert log_rank_p_value(a, b) == pytest.approx(as_large / 20)


def test_the_log_rank_test_without_a_difference_or_without_a_success() -> None:
    assert log_rank_p_value(times(5.0, 5.0, 5.0), times(5.0, 5.0, 5.0)) == 1.0
    assert log_rank_p_value(times(-5.0, -7.0), times(-6.0)) is None
