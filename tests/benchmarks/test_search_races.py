"""Simulated searches find good recipes within their budget."""

from __future__ import annotations

from benchmarks.search_races import LANDSCAPES, declared, search


def test_a_race_finds_a_better_recipe() -> None:
    found = search(declared(4.0), LANDSCAPES["steep"])
    assert found.trainings > 10 and found.times_best < 2 and found.spent_h <= 4.0


def test_a_population_finds_a_better_recipe() -> None:
    found = search(declared(3.0, "population", 8), LANDSCAPES["steep"])
    assert found.times_best < 3 and found.spent_h <= 3.0
