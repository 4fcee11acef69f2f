"""The rule of a run's verdict stays within its error budget."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from ledger_lab.ledger.costs.few_runs import lower_bound
from ledger_lab.panels.verdict import ERROR_BUDGET, RULE_VERSION, NextPanel, Standing, Verdict, VerdictRule

RULE = VerdictRule.of_version(RULE_VERSION, 0.9)
FIRST = VerdictRule.of_version(1, 0.9)


def begun(rule: VerdictRule = RULE) -> Standing:
    """Return the standing at the first proof of a run."""
    return rule.begin(Standing.of(rule.error_budget))


def for_each_result(risk: float, panels: int, episodes: int) -> Standing:
    """Return a standing before a panel, once for each number of successes that the panel may have."""
    shape = episodes + 1
    return Standing(np.full(shape, 0.01), np.full(shape, 0.02), np.full(shape, risk), np.full(shape, panels))


@pytest.mark.parametrize("panels", [0, 1])
@pytest.mark.parametrize("risk", [1e-6, 0.025, 0.3, 0.7, 0.95])
@pytest.mark.parametrize(
    ("target", "episodes"),
    [(0.9, 256), (0.9, 40), (0.5, 20), (0.99, 600), (0.05, 8), (0.9, 1), (0.001, 1), (0.001, 16), (1e-9, 256)],
)
def test_the_risk_is_not_expected_to_rise_at_the_target_and_rises_with_the_successes(
    target: float, episodes: int, risk: float, panels: int
) -> None:
    rule, successes = VerdictRule(target), np.arange(episodes + 1)
    before = for_each_result(risk, panels, episodes)
    after = rule.after(before, successes, episodes)
    mean = (after.risk * binom.pmf(successes, episodes, target)).sum()
    assert mean <= risk * (1 + 1e-9)
    assert (np.diff(after.risk) >= 0).all(), "so that the risk of a policy below the target is lower"
    assert (after.passed == (successes >= rule.needs(before, episodes))).all()
    assert after.risk.min() >= 0 and after.risk.max() <= 1


@pytest.mark.parametrize("panels", [0, 1])
@pytest.mark.parametrize("risk", [0.001, 0.025, 0.3, 0.7, 0.95])
@pytest.mark.parametrize(("target", "episodes"), [(0.9, 64), (0.5, 20), (0.05, 8), (0.9, 3)])
def test_the_risk_is_not_expected_to_rise_if_cells_are_not_equally_difficult(
    target: float, episodes: int, risk: float, panels: int
) -> None:
    """Episodes that surely succeed or fail, and the others alike: one of these mixtures is the worst (Hoeffding)."""
    before = for_each_result(risk, panels, episodes)
    worst = {version: 0.0 for version in (2, 3)}
    for version in worst:
        after = VerdictRule.of_version(version, target).after(before, np.arange(episodes + 1), episodes).risk
        for surely in range(int(episodes * target) + 1):
            for others in range(1, episodes - surely + 1):
                rate = (episodes * target - surely) / others
                if rate <= 1:
                    mean = (after[surely : surely + others + 1] * binom.pmf(np.arange(others + 1), others, rate)).sum()
                    worst[version] = max(worst[version], mean / risk)
    assert worst[3] <= 1 + 1e-9
    if (target, risk) == (0.5, 0.7):
        assert worst[2] == pytest.approx(1.24, abs=0.01), "the version before was not proven for cells"


def test_the_first_panel_is_an_exact_test_that_risks_its_stake() -> None:
    assert RULE.first_needs(256) == 241
    confidence = 1 - RULE.stake * ERROR_BUDGET
    assert lower_bound(240, 256, confidence) < RULE.target_success <= lower_bound(241, 256, confidence)


def test_a_near_miss_is_extended_and_its_successes_count() -> None:
    first = begun()
    missed = RULE.after(first, 240, 256)
    assert not missed.passed and RULE.goes_on(missed)
    assert RULE.needs(missed, 256) < RULE.needs(RULE.after(first, 237, 256), 256)
    assert RULE.after(RULE.after(missed, 240, 256), 240, 256).passed, "by three panels that do not pass alone"


def test_a_clear_miss_is_not_extended() -> None:
    assert not RULE.goes_on(RULE.after(begun(), 231, 256))
    assert not RULE.goes_on(RULE.after(begun(), 256, 256)), "a pass needs no extension"
    assert not RULE.goes_on(begun()), "an extension follows a panel"


def test_an_extension_that_loses_its_evidence_ends() -> None:
    missed = RULE.after(begun(), 240, 256)
    assert not RULE.goes_on(RULE.after(missed, 215, 256))


def test_a_proof_returns_what_it_did_not_lose_and_never_a_gain() -> None:
    first = begun()
    staked = (RULE.stake + RULE.extension) * ERROR_BUDGET
    assert float(first.stake) == pytest.approx(staked)
    promising, lost = RULE.after(first, 240, 256), RULE.after(first, 200, 256)
    for after, left in ((promising, ERROR_BUDGET), (lost, ERROR_BUDGET - staked)):
        again = RULE.begin(after)
        assert float(again.left + again.stake) == pytest.approx(left, rel=1e-3)


def test_the_check_refuses_only_what_refutes_the_target() -> None:
    needed = RULE.check_needs(256)
    assert needed == 224
    assert binom.cdf(needed - 1, 256, 0.9) <= 0.1 < binom.cdf(needed, 256, 0.9)
    assert FIRST.check_needs(256) == 231
    assert VerdictRule(0.55, check_level=None).check_needs(100) == 55
    assert VerdictRule(0.01, check_level=None).check_needs(10) == 1


@pytest.mark.parametrize(
    ("target", "episodes"), [(1.0, 10_000), (0.9999999, 256), (1 - 1e-16, 256), (0.9, 39), (0.5, 1)]
)
def test_a_target_that_cannot_be_proven_is_not_decidable(target: float, episodes: int) -> None:
    rule = VerdictRule(target)
    assert not rule.is_decidable(episodes)
    assert rule.first_needs(episodes) == episodes + 1
    assert rule.first_pass_chance(1.0, episodes) == 0


def test_version_1_proves_each_checkpoint_once() -> None:
    needed, standing = [], begun(FIRST)
    for _ in range(20):
        needed.append(int(FIRST.needs(standing, 256)))
        standing = FIRST.begin(FIRST.after(standing, 240 if len(needed) % 2 else 0, 256))
    assert [needed[k - 1] for k in (1, 2, 5, 10, 20)] == [241, 242, 243, 244, 247]
    assert not FIRST.goes_on(FIRST.after(begun(FIRST), 240, 256))


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 4"):
        VerdictRule.of_version(4, 0.9)


def test_a_panel_without_episodes_is_refused() -> None:
    with pytest.raises(ValueError, match="0 episodes"):
        RULE.needs(begun(), 0)


def test_the_verdict_of_a_run_asks_for_what_the_simulation_of_the_rule_asks_for() -> None:
    """The same successes, once in the arrays of the simulation, and once in the state machine of a run."""
    rng, runs, episodes = np.random.default_rng(3), 200, 64
    rule = VerdictRule(0.8)
    verdicts = [Verdict(rule) for _ in range(runs)]
    standing = Standing.of(rule.error_budget, (runs,))
    extended, proven = 0, np.zeros(runs, dtype=bool)
    for panel in range(12):
        goes_on = rule.goes_on(standing)
        begun = rule.begin(standing)
        pairs = zip(vars(standing).values(), vars(begun).values(), strict=True)
        standing = Standing(*(np.where(goes_on, before, anew) for before, anew in pairs))
        needed, successes = rule.needs(standing, episodes), rng.binomial(episodes, 0.8, runs)
        standing = rule.after(standing, successes, episodes)
        for run, verdict in enumerate(verdicts):
            if proven[run]:
                continue
            sha256 = verdict._extends or f"policy {panel}"
            assert (verdict._extends is not None) == goes_on[run]
            what = verdict.proof(sha256, episodes)
            assert (what.needed, what.extension > 0) == (needed[run], goes_on[run])
            extended += what.extension > 0
            verdict.count((what.proof, what.extension), sha256, int(successes[run]), episodes)
            assert verdict.proven == (successes[run] >= what.needed)
        proven |= standing.passed
    assert extended > 50 and 0 < proven.sum() < runs


def test_a_new_checkpoint_is_checked_and_a_miss_begins_a_new_proof() -> None:
    verdict = Verdict(RULE)
    assert verdict.check(256) == NextPanel("check", 1, 0, 224)
    first = verdict.proof("a", 256)
    assert first == NextPanel("proof", 1, 0, 241)
    verdict.count((1, 0), "a", 240, 256)
    assert verdict.proof("a", 256).extension == 1 and verdict.proof("b", 256).proof == 2
    verdict.count((1, 1), "a", 200, 256)
    assert not verdict.extends("a") and not verdict.proven
    assert verdict.proof("a", 256) == NextPanel("proof", 2, 0, verdict.proof("b", 256).needed)
