"""Intervals and medians include the runs that missed the target."""

from __future__ import annotations

import random

import pytest

from ledger_lab.costs import MedianTime, RunCost, RunTime, bootstrap_interval, cohort_cost, median_time_to_target


def run(name: str, usd: float | None, *, reached: bool) -> RunCost:
    """Build the cost of one run."""
    return RunCost(run=name, usd=usd, reached_target=reached, failed=False)


def test_the_interval_covers_the_cost_and_narrows_with_runs() -> None:
    few = [(1.0, True), (2.0, True), (4.0, True)] * 2
    low, high = bootstrap_interval(few)
    assert high is not None
    assert 1.0 <= low < 7 / 3 < high <= 4.0
    narrow_low, narrow_high = bootstrap_interval(few * 50)
    assert narrow_high is not None
    assert low < narrow_low < 7 / 3 < narrow_high < high


def test_resamples_without_success_leave_the_upper_bound_open() -> None:
    # Of three runs with one success, (2/3)^3 = 30 % of the resamples have none.
    low, high = bootstrap_interval([(1.0, True), (1.0, False), (1.0, False)])
    assert high is None
    assert low == 1.0
    # Of six with four, (2/6)^6 = 0.14 % have none: less than the 0.24 % above the upper bound.
    assert bootstrap_interval([(1.0, True)] * 4 + [(1.0, False)] * 2)[1] is not None


def test_an_expensive_failure_raises_the_upper_bound() -> None:
    _, cheap = bootstrap_interval([(1.0, True)] * 9 + [(1.0, False)])
    _, dear = bootstrap_interval([(1.0, True)] * 9 + [(50.0, False)])
    assert cheap is not None
    assert dear is not None
    assert dear > 2 * cheap


def test_the_interval_does_not_depend_on_the_order_of_the_runs() -> None:
    runs = [(0.1 * index, index % 3 == 0) for index in range(12)]
    shuffled = runs.copy()
    random.Random(3).shuffle(shuffled)
    assert bootstrap_interval(runs) == bootstrap_interval(shuffled)
    assert bootstrap_interval(runs, seed=1) != bootstrap_interval(runs, seed=2)


@pytest.mark.parametrize("runs", [[], [(1.0, True)], [(1.0, False), (1.0, False)]])
def test_no_interval_without_runs_or_success(runs: list[tuple[float, bool]]) -> None:
    with pytest.raises(ValueError, match="at least two runs"):
        bootstrap_interval(runs)


def test_a_cohort_has_an_interval_exactly_where_its_cost_is_defined_for_several_runs() -> None:
    assert cohort_cost([run("a", 1.0, reached=True)]).usd_interval is None
    assert cohort_cost([run("a", 1.0, reached=True), run("b", None, reached=True)]).usd_interval is None
    assert cohort_cost([run("a", 1.0, reached=False), run("b", 1.0, reached=False)]).usd_interval is None
    assert cohort_cost([run("a", 1.0, reached=True), run("b", 3.0, reached=True)]).usd_interval == (1.0, 3.0)


def test_free_runs_without_success_cost_infinitely_much_per_success() -> None:
    assert bootstrap_interval([(0.0, True), (0.0, False)]) == (0.0, None)


def test_a_large_cohort_is_resampled_in_pieces() -> None:
    low, high = bootstrap_interval([(1.0, index % 2 == 0) for index in range(3000)])
    assert high is not None
    assert 1.8 < low < 2.0 < high < 2.2


def times(*seconds: float) -> list[RunTime]:
    """Build runs by their times; a negative one never got there."""
    return [RunTime(wall_s=abs(s) + 1.0 if s > 0 else abs(s), to_target_s=s if s > 0 else None) for s in seconds]


@pytest.mark.parametrize(
    ("runs", "median"),
    [
        ((40.0,), MedianTime(exactly_s=40.0, more_than_s=None)),
        ((40.0, 60.0), MedianTime(exactly_s=50.0, more_than_s=None)),
        ((60.0, 40.0, 50.0), MedianTime(exactly_s=50.0, more_than_s=None)),
        ((40.0, -120.0, 50.0), MedianTime(exactly_s=50.0, more_than_s=None)),
        ((40.0, -5.0, 50.0), MedianTime(exactly_s=50.0, more_than_s=None)),
        ((-120.0,), MedianTime(exactly_s=None, more_than_s=120.0)),
        ((40.0, -60.0), MedianTime(exactly_s=None, more_than_s=50.0)),
        ((40.0, -60.0, -120.0), MedianTime(exactly_s=None, more_than_s=60.0)),
        ((40.0, -19.0, -120.0), MedianTime(exactly_s=None, more_than_s=40.0)),
    ],
)
def test_runs_that_missed_the_target_count_in_the_median(runs: tuple[float, ...], median: MedianTime) -> None:
    assert median_time_to_target(times(*runs)) == median
    assert median_time_to_target(times(*reversed(runs))) == median


def test_a_median_needs_runs_and_possible_times() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        median_time_to_target([])
    with pytest.raises(ValueError, match="wall_s"):
        RunTime(wall_s=-1.0, to_target_s=None)
    with pytest.raises(ValueError, match="to_target_s"):
        RunTime(wall_s=1.0, to_target_s=float("inf"))
