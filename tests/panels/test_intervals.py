"""Bounds of a share hold as often as claimed."""

from __future__ import annotations

from math import comb

import pytest

from ledger_lab.panels.intervals import lower_bound


def at_least(successes: int, episodes: int, share: float) -> float:
    """Return the probability of at least so many successes."""
    return sum(comb(episodes, k) * share**k * (1 - share) ** (episodes - k) for k in range(successes, episodes + 1))


def test_239_of_256_successes_prove_90_percent() -> None:
    assert lower_bound(238, 256) < 0.9 <= lower_bound(239, 256)


@pytest.mark.parametrize(("successes", "episodes", "confidence"), [(1, 7, 0.95), (50, 64, 0.99), (64, 64, 0.8)])
def test_at_the_bound_the_successes_have_the_error_probability(
    successes: int, episodes: int, confidence: float
) -> None:
    bound = lower_bound(successes, episodes, confidence)
    assert at_least(successes, episodes, bound) == pytest.approx(1 - confidence)


def test_the_bound_agrees_with_the_exact_test_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for successes, episodes in ((0, 5), (3, 5), (231, 256), (256, 256)):
        test = stats.binomtest(successes, episodes, alternative="greater")
        expected = test.proportion_ci(confidence_level=0.9, method="exact").low
        assert lower_bound(successes, episodes, 0.9) == pytest.approx(expected, abs=1e-12)


def test_the_bound_exceeds_the_true_share_no_more_often_than_claimed() -> None:
    episodes = 40
    for share in (0.03, 0.5, 0.8, 0.95):
        fooled = [k for k in range(episodes + 1) if lower_bound(k, episodes, 0.95) > share]
        assert at_least(min(fooled, default=episodes + 1), episodes, share) <= 0.05


@pytest.mark.parametrize(("successes", "episodes"), [(3, 2), (-1, 2), (0, 0)])
def test_impossible_counts_are_refused(successes: int, episodes: int) -> None:
    with pytest.raises(ValueError, match="successes of"):
        lower_bound(successes, episodes)
