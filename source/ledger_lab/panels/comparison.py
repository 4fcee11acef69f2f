"""Comparison of two policies that took the same episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_RESAMPLES = 10_000


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What the same episodes tell about two policies."""

    episodes: int
    only_first: int
    """Episodes in which the first policy alone succeeded."""
    only_second: int
    """Episodes in which the second policy alone succeeded."""
    p_value: float
    """Two-sided probability of a difference at least as one-sided as this one, if the policies were equally good."""
    difference: float
    """Success of the second policy minus that of the first, in [-1, 1]."""
    interval: tuple[float, float]
    """95 % interval of the difference."""


def compare_paired(
    first: Sequence[bool], second: Sequence[bool], clusters: Sequence[int] | None = None, seed: int = 0
) -> Comparison:
    """Compare two policies episode by episode, which shows smaller differences than their intervals do.

    The p-value is that of the exact McNemar test (McNemar 1947, Psychometrika 12:153): a sign test over the clusters in
    which one policy had more successes. The interval is the percentile interval of a bootstrap over whole clusters
    (Efron & Tibshirani 1993, An Introduction to the Bootstrap, chapters 8 and 13).

    Args:
        first: Whether the first policy succeeded, by episode.
        second: Whether the second policy succeeded, in the same order.
        clusters: Which episodes belong together, because they are not independent of each other: the seed of each
            episode, where a panel has several cells. By default, each episode is a cluster of its own.
        seed: Seed of the bootstrap.

    Returns:
        The comparison.

    Raises:
        ValueError: If there are no episodes, or not equally many of everything.
    """
    if not first or len({len(first), len(second), len(first if clusters is None else clusters)}) != 1:
        raise ValueError(f"cannot pair {len(first)} with {len(second)} episodes, or not with these clusters")
    import numpy as np  # both take longer to load than a report takes otherwise
    from scipy.stats import binomtest

    gains = np.asarray(second, dtype=np.int64) - np.asarray(first, dtype=np.int64)
    members = np.unique(range(len(gains)) if clusters is None else clusters, return_inverse=True)[1]
    sizes, totals = np.bincount(members), np.bincount(members, weights=gains)
    better, worse = int((totals > 0).sum()), int((totals < 0).sum())

    drawn = np.random.default_rng(seed).integers(len(sizes), size=(_RESAMPLES, len(sizes)))
    low, high = np.quantile(totals[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [0.025, 0.975])
    return Comparison(
        episodes=len(gains),
        only_first=int((gains < 0).sum()),
        only_second=int((gains > 0).sum()),
        p_value=float(binomtest(better, better + worse).pvalue) if better + worse else 1.0,
        difference=float(gains.mean()),
        interval=(float(low), float(high)),
    )
