"""The test of two costs counts the ways to split the runs."""

from __future__ import annotations

import itertools

import pytest

from ledger_lab.ledger.costs import cost_p_value

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


def test_a_side_without_success_is_compared() -> None:
    never = [(50.0, False)] * 5
    always = [(10.0, True)] * 5
    assert cost_p_value(never, always) == pytest.approx(2 / 252)


def test_without_any_success_or_spend_there_is_no_test() -> None:
    assert cost_p_value([(5.0, False)], [(6.0, False)]) is None
    assert cost_p_value([(0.0, True), (0.0, True)], [(6.0, True), (5.0, True)]) is None
    with pytest.raises(ValueError, match="at least one run"):
        cost_p_value([], CHEAP)
