"""The rule of a run's verdict, on policies whose true success is known."""

from __future__ import annotations

import json
from math import comb
from pathlib import Path

import numpy as np
import pytest

from benchmarks.verdict import (
    Scenario,
    bench_verdict,
    draw_looks,
    examine,
    pass_by_rule,
    pass_naively,
)
from ledger_lab.errors import UserError
from ledger_lab.panels.intervals import lower_bound
from ledger_lab.panels.verdict import VerdictRule
from tests.conftest import benchmark

RULE = VerdictRule(0.9)
PASSES_AT_88 = sum(comb(256, k) * 0.88**k * 0.12 ** (256 - k) for k in range(231, 257))


def scenario(final: float, panels: int, *, same_outcomes: bool, curve: str = "stays") -> Scenario:
    return Scenario(curve=curve, final=final, panels=panels, same_outcomes=same_outcomes)


@pytest.mark.parametrize("same_outcomes", [False, True])
@pytest.mark.parametrize("panels", [20, 100])
@pytest.mark.parametrize("curve", ["stays", "rises in a line", "rises in an S"])
@pytest.mark.parametrize("final", [0.80, 0.85, 0.88, 0.895, 0.8999, 0.95, 0.99])
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
def test_a_good_policy_passes_at_its_first_confirmation(same_outcomes: bool) -> None:
    found = examine(scenario(0.99, 20, same_outcomes=same_outcomes), RULE, 256, 1000, np.random.default_rng(7))
    assert (found.median_panels, found.p90_panels, found.without_pass) == (2, 2, 0)


def test_a_poor_policy_has_no_time_to_pass() -> None:
    found = examine(scenario(0.5, 20, same_outcomes=False), RULE, 256, 100, np.random.default_rng(7))
    assert (found.median_panels, found.p90_panels, found.without_pass) == (None, None, 100)


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


def test_a_confirmation_replaces_a_look_or_follows_the_last_look() -> None:
    perfect, hopeless = np.ones(3), np.zeros(3)
    looks = np.array([[231, 230, 230], [0, 231, 230], [0, 0, 231]])
    rng = np.random.default_rng(7)
    assert pass_by_rule(looks, perfect, RULE, 256, rng).panels.tolist() == [2, 3, 4]
    assert not pass_by_rule(looks, hopeless, RULE, 256, rng).panels.any()


def test_a_pass_is_judged_by_the_screened_checkpoint() -> None:
    success = np.array([0.899, 1.0, 1.0])
    looks = np.full((3, 20_000), 256)
    passes = pass_by_rule(looks, success, RULE, 256, np.random.default_rng(7))
    assert (passes.false == (passes.panels == 2)).all()
    assert 0 < passes.false.mean() < RULE.confirmation_error(1, 256)
    naive = pass_naively(looks, success, 0.9, 256)
    assert naive.false.all()
    assert (naive.panels == 1).all()


def test_the_script_prints_and_writes_every_scenario(tmp_path: Path) -> None:
    finished = benchmark("verdict", "--runs", "20", "--json", tmp_path / "verdict.json")
    assert finished.returncode == 0, finished.stderr
    for word in ("89.99 %", "naive", "rises in an S", "5 % allowed"):
        assert word in finished.stdout
    content = json.loads((tmp_path / "verdict.json").read_text())
    assert content["rule"] == {"target_success": 0.9, "error_budget": 0.05, "stake": 0.3}
    assert len(content["findings"]) == 88


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--runs", "0"], "--runs and --episodes must be at least 1"),
        (["--target", "1"], "--target and --stake must lie between 0 and 1"),
        (["--episodes", "39"], "--episodes 39: too few to prove a success of 0.9"),
    ],
)
def test_invalid_arguments_are_refused(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        bench_verdict(arguments)
