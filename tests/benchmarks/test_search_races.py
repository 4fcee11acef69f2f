"""Simulated searches find good recipes and schedules within their budget."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.search_races import LANDSCAPES, Landscape, declared, search
from ledger_lab.studies.search.chains import Link
from ledger_lab.studies.search.space import Values

BEST: Values = {"learning_rate": 1e-3, "clip": 0.2, "schedule": "adaptive", "kl_target": 0.01}


def test_a_search_finds_a_better_recipe_and_claims_it() -> None:
    found = search(declared(4.0), LANDSCAPES["steep"])
    assert found.trainings > 10 and found.times_best < 2
    assert found.claims and found.is_true


def test_a_population_finds_a_better_schedule_and_claims_it() -> None:
    """Half of such populations do."""
    found = search(declared(3.0, "population", 8), replace(LANDSCAPES["moving"], number=8))
    assert found.trainings > 10 and found.times_best < 2
    assert found.claims and found.is_true


def test_a_recipe_takes_as_long_as_a_chain_of_it_besides_the_start_ups() -> None:
    for landscape in (LANDSCAPES["steep"], LANDSCAPES["moving"]):
        recipe_s = landscape.median_s(BEST)
        for stages in (1, 2, 3):
            links = [Link(trial=each, values=BEST, iterations=40) for each in range(1, stages)]
            chain_s = landscape.median_of_chain_s([*links, Link(trial=stages, values=BEST, iterations=None)])
            assert chain_s - 5.0 * (stages - 1) == pytest.approx(recipe_s, rel=0.02)


def test_a_schedule_beats_every_recipe_only_if_the_best_values_move() -> None:
    def median_s(landscape: Landscape, *rates: float) -> float:
        links = [
            Link(trial=number, values={**BEST, "learning_rate": rate}, iterations=None if number == len(rates) else 60)
            for number, rate in enumerate(rates, start=1)
        ]
        return landscape.median_of_chain_s(links)

    schedule = [10**exponent for exponent in (-2.0, -3.0, -4.0)]
    moving, still = LANDSCAPES["moving"], LANDSCAPES["steep"]
    assert median_s(moving, *schedule) < 0.7 * min(
        median_s(moving, 10**each) for each in (-2.0, -2.5, -3.0, -3.5, -4.0)
    )
    assert median_s(still, *schedule) > 1.2 * median_s(still, 1e-3)
    assert median_s(still, 1e-3) < math.inf


def test_the_true_time_of_a_recipe_is_the_mean_over_lucky_and_unlucky_trainings() -> None:
    landscape = replace(LANDSCAPES["steep, noisy"], number=3)
    trained_s = landscape.median_s(BEST) - 5.0
    chain = [Link(trial=1, values=BEST, iterations=None)]
    assert landscape.mean_of_chain_s(chain) == pytest.approx(5.0 + trained_s * math.exp(0.5**2 / 2), rel=0.05)
    assert landscape.mean_of_chain_s(chain) == landscape.mean_of_chain_s(chain), "it does not depend on the call"


def test_intervals_that_do_not_hold_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    landscape = replace(LANDSCAPES["steep"], number=8)
    found = search(declared(3.0, "population", 8), landscape)
    assert found.intervals > 0 and found.all_hold
    mean_s = Landscape.mean_of_chain_s
    monkeypatch.setattr(
        Landscape, "mean_of_chain_s", lambda self, chain: mean_s(self, chain) * (1.0 if not chain[0].values else 9.0)
    )
    assert not search(declared(3.0, "population", 8), landscape).all_hold
