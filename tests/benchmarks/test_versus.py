"""Simulated comparisons of two policies: scenarios have the truth that they claim, and the test keeps its level."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.versus import Scenario, examine, examine_proven

EQUAL = Scenario(name="equal", first=(0.9,) * 4, second=(0.9,) * 4, episodes=128, own_seeds=True)
LOPSIDED = replace(EQUAL, lopsided=True)
BETTER = replace(EQUAL, first=(0.7,) * 4)


@pytest.mark.parametrize("scenario", [EQUAL, LOPSIDED, BETTER, replace(LOPSIDED, own_seeds=False)])
def test_drawn_outcomes_have_the_true_difference(scenario: Scenario) -> None:
    generator = np.random.default_rng(1)
    drawn = [scenario.draw(generator) for _ in range(400)]
    assert all(each.shape == (32, 4) for pair in drawn for each in pair)
    found = np.mean([second.mean() - first.mean() for first, second in drawn])
    assert found == pytest.approx(scenario.true_difference, abs=0.012)


@pytest.mark.parametrize("scenario", [EQUAL, LOPSIDED])
def test_equal_policies_differ_no_more_often_than_claimed(scenario: Scenario) -> None:
    found = examine(scenario, 500, np.random.default_rng(1))
    assert found.rejected / 500 < 0.06
    assert found.covered / 500 > 0.94
    assert found.contradictions == 0


def test_seeds_that_share_cells_need_many_seeds_if_the_policies_are_not_exchangeable() -> None:
    few = examine(replace(LOPSIDED, episodes=64, own_seeds=False), 500, np.random.default_rng(1))
    assert few.scenario.seeds == 16
    assert few.rejected / 500 > 0.1


def test_the_interval_of_two_proofs_holds_the_true_difference() -> None:
    found = examine_proven(0.91, 0.95, 2000, np.random.default_rng(1))
    assert found.pairs > 100
    assert found.covered / found.pairs > 0.95
