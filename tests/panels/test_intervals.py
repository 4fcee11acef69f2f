"""Bounds of a share hold as often as claimed."""

from __future__ import annotations

from itertools import pairwise
from math import comb

import numpy as np
import pytest
from scipy.stats import binom

from ledger_lab.ledger.costs.few_runs import lower_bound
from ledger_lab.panels.intervals import ProvenShare, false_pass_bound


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


def test_the_bound_exceeds_the_true_share_no_more_often_than_claimed() -> None:
    episodes = 40
    for share in (0.03, 0.5, 0.8, 0.95):
        fooled = [k for k in range(episodes + 1) if lower_bound(k, episodes, 0.95) > share]
        assert at_least(min(fooled, default=episodes + 1), episodes, share) <= 0.05


def proven(successes: int, episodes: int, **changes: float) -> ProvenShare:
    values = {"target": 0.9, "first_needed": 241, "first_episodes": 256, **changes}
    return ProvenShare(successes=successes, episodes=episodes, **values)  # type: ignore[arg-type]


def test_the_interval_of_a_proven_policy_begins_at_its_target_unless_more_is_known() -> None:
    assert proven(241, 256).interval()[0] == 0.9
    assert 0.9 < proven(254, 256).interval()[0] < 254 / 256 < proven(254, 256).interval()[1] < 1
    assert proven(256, 256).interval()[1] == 1
    assert proven(960, 1024).interval()[0] > 0.9


def test_a_stricter_test_selects_more_and_widens_the_interval() -> None:
    ends = [proven(250, 256, first_needed=needed).interval() for needed in (0, 241, 246, 250)]
    assert all(low <= before for (before, _), (low, _) in pairwise(ends)) and ends[0][0] > ends[3][0]
    assert proven(250, 256, first_needed=257).interval() == (0.9, 1.0), "only an extension could pass"


@pytest.mark.parametrize("target", [0.0, 0.9])
def test_the_interval_of_a_proven_policy_holds_at_all_numbers_of_trials_together(target: float) -> None:
    rng, missed = np.random.default_rng(7), 0
    sizes = (10, 25, 50, 100, 200, 400)
    for _ in range(60):
        successes = np.cumsum(rng.random(400) < 0.9)
        shares = (proven(int(successes[n - 1]), n, first_needed=0, target=target) for n in sizes)
        missed += any(not low <= 0.9 <= high for low, high in (share.interval() for share in shares))
    assert missed / 60 <= 0.05


@pytest.mark.parametrize(("rate", "needed"), [(0.9, 241), (0.9, 246), (0.905, 245), (0.92, 246), (0.96, 250)])
def test_the_interval_of_a_proven_policy_holds_given_that_it_passed(rate: float, needed: int) -> None:
    """Exactly, for proofs of one panel: also for a late proof, whose test is stricter."""
    won = np.arange(needed, 257)
    chances = binom.pmf(won, 256, rate)
    held = [low <= rate <= high for low, high in (proven(int(k), 256, first_needed=needed).interval() for k in won)]
    assert chances[held].sum() / chances.sum() >= 0.95


def test_the_chance_of_a_false_pass_is_at_most_the_sum_of_the_error_budgets() -> None:
    assert false_pass_bound([]) == 0
    assert false_pass_bound([0.05]) == pytest.approx(0.05)
    assert false_pass_bound([0.05] * 5) == pytest.approx(0.2262, abs=1e-4)
    assert 0.05 < false_pass_bound([0.05, 0.01]) < 0.06
