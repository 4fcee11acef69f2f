"""Simulated cohorts: the intervals of costs and of their ratios hold the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.cost_interval import RatioScenario, Scenario, cover_ratio

COHORT = Scenario(runs=5, rate=0.9, spread=0.3, failure_usd=4.0, crashes=False)


@pytest.mark.parametrize("paired", [False, True])
def test_the_interval_of_a_ratio_holds_it_although_few_runs_fail(paired: bool) -> None:
    pair = RatioScenario(first=COHORT, second=replace(COHORT, rate=1.0), paired=paired)
    assert pair.true_ratio == pytest.approx((np.exp(0.045) + 4 / 9) / np.exp(0.045))
    found = cover_ratio(pair, 150, np.random.default_rng(1))
    assert found.covered / found.pairs > 0.95
    assert found.covered_by_bootstrap / found.pairs < 0.9


def test_runs_of_the_same_seeds_have_similar_spends() -> None:
    generator = np.random.default_rng(1)
    many = replace(COHORT, runs=2000, rate=1.0)
    common = generator.standard_normal(many.runs)
    spends = [[usd for usd, _ in many.draw(generator, common)] for _ in range(2)]
    assert np.corrcoef(np.log(spends))[0, 1] == pytest.approx(0.8, abs=0.03)
