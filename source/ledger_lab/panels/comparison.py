"""Comparison of two policies on the same episodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from ledger_lab.panels.intervals import ProvenShare

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEVEL = 0.05
"""Level of the test, and 1 - confidence of the interval."""

_SPREADS = 12
"""Standard deviations within which the distribution of a sum is computed. Farther sums have a probability of at most
``2 exp(-72) = 1e-31`` (Hoeffding 1963)."""


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
    """95 % interval of the difference. It leaves out 0 if, and only if, :attr:`p_value` is at most 0.05."""

    @property
    def points(self) -> str:
        """Difference and interval in percentage points. Rounding never makes an interval touch 0 that leaves out 0."""
        return points_within(self.difference, self.interval)

    @property
    def p_text(self) -> str:
        """The p-value with two digits, and with more if it would otherwise round to the level of the test."""
        texts = (f"{self.p_value:.{digits}g}" for digits in range(2, 18))
        return next(text for text in texts if float(text) != LEVEL or self.p_value == LEVEL)


@dataclass(frozen=True, kw_only=True)
class ProvenComparison:
    """Result of the comparison of two policies by their proofs, which have different episodes."""

    first: ProvenShare
    second: ProvenShare
    difference: float
    """Success of the second policy minus that of the first, in [-1, 1]."""
    interval: tuple[float, float]
    """95 % interval of the difference, if both policies reach their targets."""

    @property
    def points(self) -> str:
        """Difference and interval in percentage points."""
        return points_within(self.difference, self.interval)


def compare_proven(first: ProvenShare, second: ProvenShare) -> ProvenComparison:
    """Compare two proven policies by the fresh episodes of their proofs.

    The interval of each success rate allows for the selection of what passed. Each holds with a probability of the
    square root of 95 %. The proofs are independent, so both hold with 95 %, and then the difference lies between
    the differences of opposite ends.

    Args:
        first: The proof of the first policy.
        second: That of the second policy.

    Returns:
        The comparison. There is no p-value.
    """
    (low_first, high_first), (low_second, high_second) = (
        each.interval(math.sqrt(1 - LEVEL)) for each in (first, second)
    )
    return ProvenComparison(
        first=first,
        second=second,
        difference=second.share - first.share,
        interval=(low_second - high_first, high_second - low_first),
    )


def points_within(difference: float, interval: tuple[float, float]) -> str:
    """Return a difference of success rates with its interval, in percentage points.

    Args:
        difference: The difference, in [-1, 1].
        interval: Its interval. If it leaves out 0, its ends are written with enough digits to show this.
    """
    low, high = interval
    digits = 1 if low <= 0 <= high else next(n for n in range(1, 20) if round(100 * min(abs(low), abs(high)), n) > 0)
    return f"{100 * difference:+.1f} points [{100 * low:+.{digits}f}, {100 * high:+.{digits}f}]"


def compare_paired(first: Sequence[bool], second: Sequence[bool], clusters: Sequence[int] | None = None) -> Comparison:
    """Compare two policies episode by episode. This shows smaller differences than a comparison of their intervals.

    The test is a permutation test. For each cluster, the differences between the policies are added up. If the two
    policies can be exchanged within each cluster without changing the distribution of their outcomes, each sum may as
    well have the opposite sign. The p-value is the share of all choices of signs that lead to a difference at least as
    large as the observed one (Fisher 1935, The Design of Experiments, section 21). All choices are counted, none are
    sampled, so the test is exact. If each cluster has one episode, it is the exact McNemar test (McNemar 1947,
    Psychometrika 12:153).

    Policies can also be equal on average without being exchangeable:

    - If each cluster has one episode, and one policy is better in some cells and the other in other cells, the test
      rejects less often than its level, because the signed differences vary more than the real ones.
    - If a cluster has several episodes, its sum can have an asymmetric distribution. For many clusters, the test keeps
      its level, because the signed sums have the variance of the real ones (Romano 1990, JASA 85:686). For few
      clusters it can reject more often. A sign test, which ignores how large the sums are, rejects more often for any
      number of clusters.

    The interval is not the inversion of the test, because its shape under other differences than 0 is unknown. It takes
    its centre and its standard error from Agresti & Min (2005, Statistics in Medicine 24:729), who add half a cluster
    to each of the four possible outcomes of a pair. Its half-width is 1.96 such standard errors, or the closest
    multiple with which the interval leaves out 0 exactly when the test rejects. So interval and p-value never
    contradict each other.

    ``python -m benchmarks versus`` measures level, power and coverage.

    Args:
        first: Whether the first policy succeeded, by episode.
        second: Whether the second policy succeeded, in the same order.
        clusters: Cluster of each episode; episodes of one cluster are not independent of each other. If each seed has
            an episode in several cells, the seed is the cluster. By default, each episode is a cluster of its own.

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
    sums, p_values = _tails(Counter(abs(total) for total in totals.values() if total))
    return Comparison(
        episodes=len(gains),
        only_first=gains.count(-1),
        only_second=gains.count(1),
        p_value=float(p_values[sums.searchsorted(abs(sum(gains)))]),
        difference=sum(gains) / len(gains),
        interval=_interval(list(totals.values()), len(gains), sums, p_values),
    )


def _tails(counts: Mapping[int, int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return all absolute sums of the clusters under random signs, and the probability of at least each of them.

    Args:
        counts: Number of clusters by the absolute value of their sum, which is positive.

    Returns:
        The sums, ascending and each once, and their probabilities. Of the sums beyond :data:`_SPREADS` standard
        deviations, only the largest is among them, with the bound of their probability.
    """
    import numpy as np  # these take longer to load than most reports
    from scipy.special import gammaln

    chances, lowest, lost = np.ones(1), 0, 0.0
    for value, count in counts.items():
        reach = min(count, math.isqrt(_SPREADS**2 * count))
        plus = np.arange((count - reach + 1) // 2, (count + reach) // 2 + 1)  # clusters with a positive sign
        chance = np.exp(gammaln(count + 1) - gammaln(plus + 1) - gammaln(count - plus + 1) - count * math.log(2))
        spaced = np.zeros(value * (len(plus) - 1) + 1)
        spaced[::value] = chance
        chances = np.convolve(chances, spaced)
        lowest += value * (2 * int(plus[0]) - count)
        lost += 2 * math.exp(-(_SPREADS**2) / 2) if reach < count else 0.0
    possible = chances > 0
    sums = np.abs(lowest + 2 * np.arange(len(chances)))[possible]
    sums, place = np.unique(sums, return_inverse=True)
    tails = np.cumsum(np.bincount(place, chances[possible])[::-1])[::-1] + lost
    largest = sum(value * count for value, count in counts.items())
    if sums[-1] < largest:  # the farthest sums are left out, or their probabilities have been rounded to 0
        sums, tails = np.append(sums, largest), np.append(tails, max(lost, float(np.finfo(float).tiny)))
    return sums, np.minimum(tails, 1.0)


def _interval(
    gains: Sequence[int], episodes: int, sums: NDArray[np.int64], p_values: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the 95 % interval of the difference.

    Args:
        gains: Sum of the differences in each cluster.
        episodes: Number of episodes.
        sums: All absolute sums under random signs, ascending.
        p_values: Their p-values.
    """
    scale, count = len(gains) / episodes, len(gains) + 2  # two clusters are added
    squares = math.fsum((scale * gain) ** 2 for gain in gains)  # the same for all choices of signs

    def estimate(total: int) -> tuple[float, float]:
        """Return the mean gain, and its standard error."""
        mean = total * len(gains) / episodes / count
        return mean, math.sqrt(((squares + 1) / count - mean * mean) / count)

    def distance(total: int) -> float:
        """Return by how many standard errors the mean gain differs from 0. It rises with the total."""
        mean, error = estimate(total)
        return mean / error

    accepted = int((-p_values).searchsorted(-LEVEL))
    critical = NormalDist().inv_cdf(1 - LEVEL / 2)
    inside = distance(int(sums[accepted - 1])) if accepted else 0.0
    outside = distance(int(sums[accepted])) if accepted < len(sums) else math.inf
    if critical <= inside:
        critical = inside * (1 + 1e-9) if math.isinf(outside) else (inside + outside) / 2
    elif critical >= outside:
        critical = (inside + outside) / 2
    mean, error = estimate(sum(gains))
    return max(-1.0, mean - critical * error), min(1.0, mean + critical * error)
