"""Comparison of two policies on the same episodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Result of the comparison of two policies on the same episodes."""

    episodes: int
    only_first: int
    """Episodes in which the first policy alone succeeded."""
    only_second: int
    """Episodes in which the second policy alone succeeded."""
    p_value: float
    """Two-sided probability of a difference at least as large as the observed difference, for equally good policies."""
    difference: float
    """Success of the second policy minus that of the first, in [-1, 1]."""
    interval: tuple[float, float]
    """95 % interval of the difference."""


def compare_paired(first: Sequence[bool], second: Sequence[bool], clusters: Sequence[int] | None = None) -> Comparison:
    """Compare two policies episode by episode. This shows smaller differences than a comparison of their intervals.

    The p-value is that of the exact McNemar test (McNemar 1947, Psychometrika 12:153): a sign test over the clusters in
    which one policy had more successes. The interval is that of Agresti & Min (2005, Statistics in Medicine 24:729)
    over clusters: the normal interval, after half a cluster is added to each of the four possible outcomes of a pair.
    The interval also holds if few episodes distinguish the policies; a bootstrap percentile interval does not. Example:
    of 256 episodes, one policy alone succeeds in 2 %, the other alone in none. The interval covers the truth 96 % of
    the time, the bootstrap 88 %.

    Args:
        first: Whether the first policy succeeded, by episode.
        second: Whether the second policy succeeded, in the same order.
        clusters: Cluster of each episode; episodes of one cluster are not independent of each other. If a panel has
            several cells, the seed of the episode is its cluster. By default, each episode is a cluster of its own.

    Returns:
        The comparison.

    Raises:
        ValueError: If there are no episodes, or the sequences differ in length.
    """
    if not first or len({len(first), len(second), len(first if clusters is None else clusters)}) != 1:
        raise ValueError(f"cannot pair {len(first)} with {len(second)} episodes, or not with these clusters")
    gains = [int(b) - int(a) for a, b in zip(first, second, strict=True)]
    totals: Counter[int] = Counter()
    for cluster, gain in zip(range(len(gains)) if clusters is None else clusters, gains, strict=True):
        totals[cluster] += gain
    better, worse = (sum(sign * total > 0 for total in totals.values()) for sign in (1, -1))
    return Comparison(
        episodes=len(gains),
        only_first=gains.count(-1),
        only_second=gains.count(1),
        p_value=_sign_test(better, worse),
        difference=sum(gains) / len(gains),
        interval=_interval([total * len(totals) / len(gains) for total in totals.values()]),
    )


def _sign_test(better: int, worse: int) -> float:
    """Return the two-sided probability of a split at least this uneven, if both sides are equally likely."""
    trials = better + worse
    tail = sum(math.comb(trials, count) for count in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**trials)


def _interval(gains: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean gain of the clusters, in successes per episode."""
    count = len(gains) + 2
    mean = math.fsum(gains) / count
    variance = (math.fsum(gain * gain for gain in gains) + 1) / count - mean * mean
    spread = NormalDist().inv_cdf(0.975) * math.sqrt(variance / count)
    return max(-1.0, mean - spread), min(1.0, mean + spread)
