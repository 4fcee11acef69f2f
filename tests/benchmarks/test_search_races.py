"""Simulated searches find good recipes within their budget."""

from __future__ import annotations

from benchmarks.search_races import LANDSCAPES, declared, search


def test_a_search_finds_a_better_recipe_and_claims_it() -> None:
    found = search(declared(4.0), LANDSCAPES["steep"])
    assert found.trials > 10 and found.times_best < 2
    assert found.claims and found.is_true
