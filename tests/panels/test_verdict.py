"""The rule of a run's verdict stays within its error budget."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest

from ledger_lab.panels.intervals import lower_bound
from ledger_lab.panels.verdict import ERROR_BUDGET, VerdictRule

RULE = VerdictRule(0.9)


def exact_error(needed: int, episodes: int, target: Fraction) -> Fraction:
    """Return the probability that a policy at the target has at least as many successes as needed."""
    return sum(
        (comb(episodes, k) * target**k * (1 - target) ** (episodes - k) for k in range(needed, episodes + 1)),
        Fraction(0),
    )


def test_later_confirmations_need_more_successes() -> None:
    assert [RULE.confirmation_needs(k, 256) for k in (1, 2, 5, 10, 20)] == [241, 242, 243, 244, 247]


def test_the_risk_of_a_confirmation_follows_the_binomial_distribution() -> None:
    for k in (1, 2, 7):
        expected = exact_error(RULE.confirmation_needs(k, 256), 256, Fraction(9, 10))
        assert RULE.confirmation_error(k, 256) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize(("target", "episodes"), [(0.9, 256), (0.9, 50), (0.5, 20), (0.99, 600), (0.05, 8)])
def test_all_confirmations_together_risk_no_more_than_the_budget(target: float, episodes: int) -> None:
    rule = VerdictRule(target)
    assert 0 < sum(rule.confirmation_error(k, episodes) for k in range(1, 400)) <= ERROR_BUDGET


def test_one_success_less_would_risk_more_than_the_stake() -> None:
    left = ERROR_BUDGET
    for k in range(1, 30):
        needed = RULE.confirmation_needs(k, 256)
        confidence = 1 - RULE.stake * left
        assert lower_bound(needed - 1, 256, confidence) < RULE.target_success <= lower_bound(needed, 256, confidence)
        left -= RULE.confirmation_error(k, 256)


def test_the_screening_needs_the_target_share() -> None:
    assert RULE.screening_needs(1, 256) == RULE.screening_needs(9, 256) == 231
    assert VerdictRule(0.55).screening_needs(1, 100) == 55
    assert VerdictRule(0.01).screening_needs(1, 10) == 1


@pytest.mark.parametrize(("target", "episodes"), [(1.0, 10_000), (0.9, 39), (0.5, 1)])
def test_a_target_that_cannot_be_proven_is_not_decidable(target: float, episodes: int) -> None:
    rule = VerdictRule(target)
    assert not rule.is_decidable(episodes)
    assert rule.confirmation_needs(1, episodes) == rule.screening_needs(1, episodes) == episodes + 1
    assert rule.confirmation_error(1, episodes) == 0


def test_a_small_panel_runs_out_of_confirmations() -> None:
    assert RULE.is_decidable(40)
    assert RULE.confirmation_needs(1, 40) == 40
    assert RULE.confirmation_needs(2, 40) == RULE.screening_needs(2, 40) == 41


@pytest.mark.parametrize("fields", [(0.0, 0.05, 0.3), (1.1, 0.05, 0.3), (0.9, 0.0, 0.3), (0.9, 0.05, 1.0)])
def test_fields_that_are_not_probabilities_are_refused(fields: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="no rule"):
        VerdictRule(*fields)


@pytest.mark.parametrize(("k", "episodes"), [(0, 256), (1, 0)])
def test_confirmation_zero_and_zero_episodes_are_refused(k: int, episodes: int) -> None:
    with pytest.raises(ValueError, match="confirmation"):
        RULE.confirmation_needs(k, episodes)
