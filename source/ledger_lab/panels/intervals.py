"""Intervals and bounds for a share of successes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import exp, fsum, inf, lgamma, log, log1p, prod, sqrt
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


@dataclass(frozen=True, kw_only=True)
class ProvenShare:
    """Successes of a proof that passed, and what was needed to pass at once."""

    successes: int
    """Successes of all its panels."""
    episodes: int
    """Episodes of all its panels."""
    target: float
    """The target, in (0, 1]."""
    first_needed: int
    """Successes with which its first panel would have passed."""
    first_episodes: int
    """Episodes of its first panel."""

    @property
    def share(self) -> float:
        """Share of the episodes that succeeded."""
        return self.successes / self.episodes

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return an interval of the true success rate. It allows for the selection: the proof passed.

        Its lower end is at least the target: this is what the proof proves, and the error budget of the run is the
        probability that it is wrong. **For each policy that reaches its target, the interval holds the true rate in a
        share of ``confidence`` of the proofs that pass,** whichever proof of a run it is, however strict the test was,
        and whenever the proof ended.

        Proof. Let ``M`` be the likelihood, averaged over all rates from the target to 1, divided by the likelihood of
        the true rate ``p``. ``M`` is a test martingale. By Ville's inequality (Robbins 1970, Annals of Mathematical
        Statistics 41:1397; Howard et al. 2021, Annals of Statistics 49:1055), it exceeds ``1 / a`` at any number of
        episodes with a probability of at most ``a``. The interval leaves ``p`` out if ``M`` exceeds ``1 / a`` for
        ``a = (1 - confidence) P``, with ``P`` the probability of ``p`` to pass the first panel. The probability of a
        pass is at least ``P``. So the share of passes without the true rate is at most ``a / P = 1 - confidence``. The
        logarithm of ``M P`` first falls and then rises with ``p``, so these rates are an interval.

        In cells of unequal difficulty, ``M`` is expected to be lower still (Hoeffding 1956), but ``P`` may be lower,
        too. ``python -m benchmarks coverage`` simulates this.

        Args:
            confidence: Confidence level in (0, 1).

        Returns:
            Lower and upper bound, in [0, 1].
        """
        return _proven_interval(self, confidence)


_TINY = sys.float_info.min


@lru_cache(maxsize=4096)
def _proven_interval(of: ProvenShare, confidence: float) -> tuple[float, float]:
    """Return the interval of a proven share."""
    failures = of.episodes - of.successes
    above = (1 - _at_least(of.successes + 1, of.episodes + 1, of.target)) / max(1 - of.target, _TINY)
    mean = lgamma(of.successes + 1) + lgamma(failures + 1) - lgamma(of.episodes + 2) + log(max(above, _TINY))

    def covered(rate: float) -> bool:
        parts = ((of.successes, rate), (failures, 1 - rate))
        likelihood = sum(count * log(each) if each > 0 else -inf for count, each in parts if count)
        passes = _at_least(of.first_needed, of.first_episodes, rate)
        return passes == 0 or likelihood >= mean + log((1 - confidence) * passes)

    ends = []
    for outside in (of.target, 1.0):
        inside = max(of.share, of.target)
        for _ in range(0 if covered(outside) else 60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if covered(middle) else (inside, middle)
        ends.append(outside)
    return ends[0], ends[1]


def _at_least(successes: int, episodes: int, rate: float) -> float:
    """Return the probability of at least some successes. Without SciPy, which takes longer to load than most reports.

    Args:
        successes: Number of successes, from 0 to ``episodes + 1``.
        episodes: Number of independent trials.
        rate: Success rate, in [0, 1].
    """
    if rate in (0.0, 1.0):
        return float(successes <= rate * episodes)
    logs = log(rate), log1p(-rate)
    ways = lgamma(episodes + 1)
    terms = (
        ways - lgamma(each + 1) - lgamma(episodes - each + 1) + each * logs[0] + (episodes - each) * logs[1]
        for each in range(successes, episodes + 1)
    )
    return min(1.0, fsum(map(exp, terms)))


def false_pass_bound(error_budgets: Iterable[float]) -> float:
    """Return the highest probability that at least one of several runs proves a policy below its target.

    ``1 - product(1 - error budget)``. The bound does not need independent runs, only that the seeds of all
    proofs are fresh. While a run goes on, the budget that it has left (1 after a false pass) never rises in
    expectation. Proofs of different runs can be put into an order, so that each step changes one factor of
    ``product(1 - budget)`` and the product never falls in expectation. It is 0 after a false pass and at most 1
    otherwise, so its first value is a lower bound of the probability that no run has a false pass.

    Args:
        error_budgets: Error budget of each run, in [0, 1].
    """
    return 1 - prod(1 - budget for budget in error_budgets)
