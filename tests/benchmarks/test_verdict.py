"""The rule of a run's verdict, on policies whose true success is known."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from benchmarks.verdict import (
    Scenario,
    draw_looks,
    examine,
    examine_interval,
    pass_by_rule,
    pass_naively,
)
from ledger_lab.ledger.costs.few_runs import lower_bound
from ledger_lab.panels.verdict import VerdictRule

RULE = VerdictRule(0.9)
PASSES_AT_88 = sum(comb(256, k) * 0.88**k * 0.12 ** (256 - k) for k in range(231, 257))


def scenario(final: float, panels: int, *, same_outcomes: bool, curve: str = "stays") -> Scenario:
    return Scenario(curve=curve, final=final, panels=panels, same_outcomes=same_outcomes)


@pytest.mark.parametrize("same_outcomes", [False, True])
@pytest.mark.parametrize("panels", [20, 100])
@pytest.mark.parametrize("curve", ["stays", "rises in a line", "rises in an S", "falls in a line", "swings"])
@pytest.mark.parametrize("final", [0.80, 0.88, 0.895, 0.8999, 0.95])
def test_a_run_passes_a_checkpoint_below_the_target_no_more_often_than_its_budget_allows(
    final: float, curve: str, panels: int, same_outcomes: bool
) -> None:
    tried = scenario(final, panels, same_outcomes=same_outcomes, curve=curve)
    found = examine(tried, RULE, 256, 1000, np.random.default_rng(7))
    assert lower_bound(found.false_passes, found.runs, 0.9999) <= RULE.error_budget


def test_the_naive_rule_passes_almost_every_policy_that_is_nearly_good() -> None:
    independent = examine(scenario(0.88, 20, same_outcomes=False), RULE, 256, 4000, np.random.default_rng(7))
    assert independent.naive_false_passes / 4000 == pytest.approx(1 - (1 - PASSES_AT_88) ** 20, abs=0.015)
    same = examine(scenario(0.88, 20, same_outcomes=True), RULE, 256, 4000, np.random.default_rng(7))
    assert same.naive_false_passes / 4000 == pytest.approx(PASSES_AT_88, abs=0.03)


@pytest.mark.parametrize("same_outcomes", [False, True])
def test_a_good_policy_passes_at_its_first_proof(same_outcomes: bool) -> None:
    found = examine(scenario(0.99, 20, same_outcomes=same_outcomes), RULE, 256, 1000, np.random.default_rng(7))
    assert (found.median_panels, found.p90_panels, found.without_pass) == (2, 2, 0)


@pytest.mark.parametrize("same_outcomes", [False, True])
def test_a_slightly_good_policy_passes_soon_because_near_misses_are_extended(same_outcomes: bool) -> None:
    tried = scenario(0.92, 20, same_outcomes=same_outcomes)
    extended = examine(tried, RULE, 256, 4000, np.random.default_rng(7))
    assert extended.soon / 4000 >= 0.95
    dropped = examine(tried, VerdictRule.of_version(1, 0.9), 256, 4000, np.random.default_rng(7))
    assert dropped.soon / 4000 < 0.5


def test_a_gain_of_one_checkpoint_is_not_carried_over_to_the_next() -> None:
    success = np.array([0.95, *[0.8999] * 40])
    looks = np.full((41, 4000), 256)
    passes = pass_by_rule(looks, success, RULE, 256, np.random.default_rng(7))
    assert lower_bound(int(passes.false.sum()), 4000, 0.9999) <= RULE.error_budget


def test_an_unchanged_policy_has_the_same_outcomes_on_the_same_seeds() -> None:
    looks = draw_looks(scenario(0.9, 20, same_outcomes=True), 256, 50, np.random.default_rng(7))
    assert (looks == looks[0]).all()
    assert len(set(looks[0])) > 5


@pytest.mark.parametrize("same_outcomes", [False, True])
def test_each_look_is_binomial_whether_seeds_stay_the_same_or_not(same_outcomes: bool) -> None:
    rising = scenario(0.9, 20, same_outcomes=same_outcomes, curve="rises in an S")
    looks = draw_looks(rising, 256, 20_000, np.random.default_rng(7))
    assert looks.mean(axis=1) == pytest.approx(256 * rising.success, abs=0.3)
    assert looks.var(axis=1) == pytest.approx(256 * rising.success * (1 - rising.success), rel=0.06)
    assert (np.diff(looks, axis=0) >= 0).all() == same_outcomes


def test_a_proof_replaces_a_look_or_follows_the_last_look() -> None:
    perfect, hopeless = np.ones(3), np.zeros(3)
    looks = np.array([[224, 223, 223], [0, 224, 223], [0, 0, 224]])
    rng = np.random.default_rng(7)
    assert pass_by_rule(looks, perfect, RULE, 256, rng).panels.tolist() == [2, 3, 4]
    assert not pass_by_rule(looks, hopeless, RULE, 256, rng).panels.any()


def test_a_pass_is_judged_by_the_checked_checkpoint() -> None:
    success = np.array([0.899, 1.0, 1.0])
    looks = np.full((3, 20_000), 256)
    passes = pass_by_rule(looks, success, RULE, 256, np.random.default_rng(7))
    early = (passes.panels > 0) & (passes.panels <= 3)  # the next checkpoint is checked at the third panel
    assert early.any() and passes.false[early].all() and not passes.false[~early].all()
    assert 0 < passes.false.mean() < 0.025, "what the first proof staked"
    naive = pass_naively(looks, success, 0.9, 256)
    assert naive.false.all()
    assert (naive.panels == 1).all()


def test_the_interval_of_a_proven_policy_holds_its_success_although_the_pass_selects() -> None:
    found = examine_interval(0.905, RULE, 256, 4000, np.random.default_rng(7))
    assert found.passes > 50
    assert found.covered / found.passes >= 0.95
    assert found.covered_by_wilson / found.passes < 0.5
    assert found.later_passes > 50 and found.later_covered / found.later_passes >= 0.95
