"""Intervals for a share of successes."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist


def wilson_interval(successes: int, episodes: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the Wilson score interval of a binomial share (Wilson 1927, JASA 22:209).

    Args:
        successes: Number of successes.
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
