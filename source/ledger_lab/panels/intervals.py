"""Intervals and bounds for a share of successes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import inf, lgamma, log, prod, sqrt
from statistics import NormalDist


def wilson_interval(successes: float, episodes: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the Wilson score interval of a binomial share (Wilson 1927, JASA 22:209).

    Args:
        successes: Number of successes. If a trial is a group of episodes, the group counts with its share of successes.
        episodes: Number of trials, at least 1.
        confidence: Two-sided confidence level in (0, 1).

    Returns:
        Lower and upper bound, in [0, 1].

    Raises:
        ValueError: If there are no trials, or more successes than trials.
    """
    if not 0 <= successes <= episodes or episodes < 1:
        raise ValueError(f"{successes} successes of {episodes} episodes")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / episodes
    centre = share + z * z / (2 * episodes)
    spread = z * sqrt(share * (1 - share) / episodes + z * z / (4 * episodes * episodes))
    scale = 1 + z * z / episodes
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


@lru_cache(maxsize=4096)
def anytime_interval(successes: int, episodes: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return an interval of a binomial share that holds at any number of trials, also if results decide the number.

    It holds those shares against which the likelihood, averaged over all shares from 0 to 1, is not larger by a factor
    of ``1 / (1 - confidence)``. For the true share this ratio is a test martingale, so that by Ville's inequality the
    interval leaves it out at *any* number of trials with a probability of at most ``1 - confidence`` (Robbins 1970,
    Annals of Mathematical Statistics 41:1397; Howard et al. 2021, Annals of Statistics 49:1055).

    Args:
        successes: Number of successes.
        episodes: Number of independent trials, at least 1.
        confidence: Confidence level in (0, 1).

    Returns:
        Lower and upper bound, in [0, 1].

    Raises:
        ValueError: If there are no trials, or more successes than trials.
    """
    if not 0 <= successes <= episodes or episodes < 1:
        raise ValueError(f"{successes} successes of {episodes} episodes")
    failures, share = episodes - successes, successes / episodes
    mean = lgamma(successes + 1) + lgamma(failures + 1) - lgamma(episodes + 2)

    def covered(rate: float) -> bool:
        parts = ((successes, rate), (failures, 1 - rate))
        likelihood = sum(count * log(each) if each > 0 else -inf for count, each in parts if count)
        return likelihood >= mean + log(1 - confidence)

    ends = []
    for outside in (0.0, 1.0):
        inside = share
        for _ in range(0 if covered(outside) else 60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if covered(middle) else (inside, middle)
        ends.append(outside)
    return ends[0], ends[1]


def lower_bound(successes: int, episodes: int, confidence: float = 0.95) -> float:
    """Return the one-sided exact lower bound of a binomial share (Clopper & Pearson 1934, Biometrika 26:404).

    If the true share is below some value, the bound exceeds the value with a probability of at most ``1 - confidence``.
    Example: of 256 episodes, 239 must succeed for the 95 % bound to reach 90 %.

    Args:
        successes: Number of successes.
        episodes: Number of independent trials, at least 1.
        confidence: One-sided confidence level in (0, 1).

    Returns:
        Lower bound, in [0, 1).

    Raises:
        ValueError: If there are no trials, or more successes than trials.
    """
    if not 0 <= successes <= episodes or episodes < 1:
        raise ValueError(f"{successes} successes of {episodes} episodes")
    if successes == 0:
        return 0.0
    from scipy.special import betaincinv

    return float(betaincinv(successes, episodes - successes + 1, 1 - confidence))


def false_pass_bound(error_budgets: Iterable[float]) -> float:
    """Return the highest probability that at least one of several runs confirms a policy below its target.

    ``1 - product(1 - error budget)``. The bound does not need independent runs, only that the seeds of all
    confirmations are fresh. While a run goes on, the budget that it has left (1 after a false pass) never rises in
    expectation. Confirmations of different runs can be put into an order, so that each step changes one factor of
    ``product(1 - budget)`` and the product never falls in expectation. It is 0 after a false pass and at most 1
    otherwise, so its first value is a lower bound of the probability that no run has a false pass.

    Args:
        error_budgets: Error budget of each run, in [0, 1].
    """
    return 1 - prod(1 - budget for budget in error_budgets)
