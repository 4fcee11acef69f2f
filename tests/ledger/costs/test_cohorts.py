"""The cost of a cohort and its interval include the runs that missed the target."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from ledger_lab.ledger.costs.cohorts import RunCost, cohort_cost, cost_interval, cost_p_value, cost_ratio_interval


def run(name: str, usd: float | None, *, reached: bool) -> RunCost:
    """Build the cost of one run."""
    return RunCost(run=name, usd=usd, reached_target=reached, failed=False)


def test_failures_that_happen_not_to_be_among_the_runs_raise_the_upper_end() -> None:
    # With five successes of five, Jeffreys' posterior reaches down to a rate of 62 %: 0.6 failures per success.
    low, high = cost_interval([(1.0, True)] * 5)
    assert low == 1.0
    assert high == pytest.approx(1 + 4 * (1 / 0.6206 - 1), rel=0.1)
    assert cost_interval([(1.0, True)] * 100)[1] < 1.15


def test_an_expensive_failure_raises_the_upper_end() -> None:
    _, cheap = cost_interval([(1.0, True)] * 9 + [(1.0, False)])
    _, dear = cost_interval([(1.0, True)] * 9 + [(50.0, False)])
    assert dear > 2 * cheap


def test_the_interval_does_not_depend_on_the_order_of_the_runs() -> None:
    runs = [(0.1 * index, index % 3 == 0) for index in range(12)]
    shuffled = runs.copy()
    random.Random(3).shuffle(shuffled)
    assert cost_interval(runs) == cost_interval(shuffled)
    assert cost_interval(runs, seed=1) != cost_interval(runs, seed=2)


def test_no_interval_for_few_runs_or_without_success() -> None:
    with pytest.raises(ValueError, match="at least 5 runs"):
        cost_interval([(1.0, True)] * 4)
    with pytest.raises(ValueError, match="reached the target"):
        cost_interval([(1.0, False)] * 5)


def test_a_cohort_has_an_interval_exactly_where_its_cost_is_defined_for_enough_runs() -> None:
    def interval(*runs: tuple[float | None, bool]) -> tuple[float, float] | None:
        cost = cohort_cost([run(str(name), usd, reached=reached) for name, (usd, reached) in enumerate(runs)])
        return cost.usd_interval

    assert interval(*[(1.0, True)] * 4) is None
    assert interval(*[(1.0, True)] * 4, (None, True)) is None
    assert interval(*[(1.0, False)] * 5) is None
    assert interval(*[(1.0, True)] * 5) is not None


def test_free_runs_cost_nothing() -> None:
    assert cost_interval([(0.0, True)] * 3 + [(0.0, False)] * 2) == (0.0, 0.0)


def test_the_interval_of_a_ratio_of_costs_mirrors_when_the_sides_are_swapped() -> None:
    cheap = [(1.0, True), (1.1, True), (1.2, True), (1.3, True), (4.0, False)]
    dear = [(2.0, True), (2.1, True), (2.3, True), (2.4, True), (2.6, True)]
    there, back = cost_ratio_interval(dear, cheap), cost_ratio_interval(cheap, dear)
    assert there == pytest.approx((1 / back[1], 1 / back[0]), rel=0.1)
    low, high = cost_ratio_interval(dear * 40, cheap * 40)
    assert there[0] < low < 2.28 / (8.6 / 4) < high < there[1]


def test_a_ratio_of_costs_is_open_where_a_side_has_no_success() -> None:
    never, always = [(1.0, False)] * 6, [(1.0, True)] * 6
    low, high = cost_ratio_interval(never, always)
    assert 0 < low < 6 and high == float("inf")
    assert cost_ratio_interval(always, never)[0] == 0
    assert cost_ratio_interval([(0.0, True)] * 5, [(0.0, True)] * 5) == (0.0, float("inf"))
    with pytest.raises(ValueError, match="at least 5 runs on each side"):
        cost_ratio_interval(always, never[:4])


@pytest.mark.parametrize(("rate", "failure_usd"), [(1.0, 1.0), (0.9, 4.0), (0.8, 2.0)])
def test_the_interval_holds_the_true_cost(rate: float, failure_usd: float) -> None:
    generator = np.random.default_rng(1)
    true = 1.0 + (1 - rate) / rate * failure_usd
    held = []
    for _ in range(200):
        reached = generator.random(5) < rate
        usd = np.where(reached, generator.normal(1.0, 0.2, 5), failure_usd)
        if reached.any():
            low, high = cost_interval(list(zip(usd.tolist(), reached.tolist(), strict=True)))
            held.append(low <= true <= high)
    assert np.mean(held) > 0.92


DEAR = [(20.0, True), (40.0, False), (80.0, True)]
CHEAP = [(10.0, True), (12.0, True), (30.0, True)]


def test_the_p_value_is_the_share_of_splits_with_as_large_a_difference() -> None:
    runs = [*DEAR, *CHEAP]

    def difference(ours: tuple[int, ...]) -> float:
        groups = [[run for place, run in enumerate(runs) if (place in ours) == own] for own in (True, False)]
        rates = [sum(reached for _, reached in group) / sum(usd for usd, _ in group) for group in groups]
        return abs(rates[0] - rates[1])

    splits = [difference(split) for split in itertools.combinations(range(6), 3)]
    expected = sum(each >= splits[0] - 1e-12 for each in splits) / len(splits)
    assert cost_p_value(DEAR, CHEAP) == pytest.approx(expected)
    assert cost_p_value(CHEAP, DEAR) == pytest.approx(expected)


def test_without_any_success_or_spend_there_is_no_test() -> None:
    assert cost_p_value([(5.0, False)], [(6.0, False)]) is None
    assert cost_p_value([(0.0, True), (0.0, True)], [(6.0, True), (5.0, True)]) is None
    with pytest.raises(ValueError, match="at least one run"):
        cost_p_value([], CHEAP)
