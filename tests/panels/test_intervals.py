"""Bounds of a share hold as often as claimed."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from ledger_lab.panels.intervals import anytime_interval, false_pass_bound, lower_bound, wilson_interval


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


def test_the_anytime_interval_holds_at_all_numbers_of_trials_together() -> None:
    rng, missed = np.random.default_rng(7), 0
    for _ in range(200):
        successes = np.cumsum(rng.random(400) < 0.9)
        ends = [anytime_interval(int(successes[n - 1]), n) for n in range(10, 401, 10)]
        missed += any(not low <= 0.9 <= high for low, high in ends)
    assert missed / 200 <= 0.05


@pytest.mark.parametrize(("successes", "episodes"), [(0, 1), (1, 1), (0, 256), (256, 256), (241, 256), (128, 256)])
def test_the_anytime_interval_is_wider_than_wilsons_and_holds_the_share(successes: int, episodes: int) -> None:
    low, high = anytime_interval(successes, episodes)
    assert 0 <= low <= successes / episodes <= high <= 1
    narrow = wilson_interval(successes, episodes)
    assert high - low > narrow[1] - narrow[0]


@pytest.mark.parametrize(("successes", "episodes"), [(0, 0), (2, 1), (-1, 3)])
def test_the_anytime_interval_refuses_impossible_counts(successes: int, episodes: int) -> None:
    with pytest.raises(ValueError, match="episodes"):
        anytime_interval(successes, episodes)


def test_the_chance_of_a_false_pass_is_at_most_the_sum_of_the_error_budgets() -> None:
    assert false_pass_bound([]) == 0
    assert false_pass_bound([0.05]) == pytest.approx(0.05)
    assert false_pass_bound([0.05] * 5) == pytest.approx(0.2262, abs=1e-4)
    assert 0.05 < false_pass_bound([0.05, 0.01]) < 0.06
