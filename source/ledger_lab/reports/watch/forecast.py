"""Adds up what planned trainings will still take, with an interval.

The amount that one training takes is not known before it ends. What trainings of the same arm have taken tells how much
it may be: the sum of ``k`` further ones has the mean ``k * m`` and the variance ``s**2 * (k + k**2 / n)``, where ``m``
and ``s`` are mean and standard deviation of the ``n`` that have ended. The second part is the error of the mean, which
all ``k`` share. With fewer than five ended trainings, there is no interval. ``python -m benchmarks time_left`` measures
how often such an interval holds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger_lab.ledger.costs import FEWEST_RUNS
from ledger_lab.reports.watch.model import CONFIDENCE, Estimate

_TAIL: Final = (1 - CONFIDENCE) / 2
_Z: Final = statistics.NormalDist().inv_cdf(1 - _TAIL)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of what is still to come."""

    expected: float | None
    """``None`` if only a bound is known."""
    variance: float | None
    """Variance of the part; ``None`` if its spread is unknown."""
    freedom: float = math.inf
    """Degrees of freedom of the variance."""
    bound: float | None = None
    """Upper bound; ``None`` if there is none."""


def further_trainings(count: int, ended: Sequence[float], bound: float | None) -> Part | None:
    """Return what further trainings of an arm will take together.

    Args:
        count: Their number, at least 1.
        ended: What the trainings of the arm that have ended took, each.
        bound: Upper bound of one training, used if none has ended; ``None`` if unknown.

    Returns:
        The part; ``None`` if nothing is known.
    """
    if not ended:
        return None if bound is None else Part(expected=None, variance=None, bound=count * bound)
    mean = statistics.fmean(ended)
    if len(ended) < FEWEST_RUNS:
        return Part(expected=count * mean, variance=None)
    variance = statistics.variance(ended) * (count + count**2 / len(ended))
    return Part(expected=count * mean, variance=variance, freedom=len(ended) - 1)


def rest_of_run(left: Estimate) -> Part:
    """Return what a run that goes on will still take.

    Args:
        left: Its estimate.
    """
    if left.expected is None:
        return Part(expected=None, variance=None, bound=left.high)
    if left.low is None and left.high is None:
        return Part(expected=left.expected, variance=0.0)  # its last iteration, at its own speed, or its time limit
    if left.low is None or left.high is None:
        return Part(expected=left.expected, variance=None)
    return Part(expected=left.expected, variance=((left.high - left.low) / (2 * _Z)) ** 2, bound=left.high)


def add_up(spent: float, parts: Sequence[Part], basis: str) -> Estimate:
    """Return the sum of what is spent and what is still to come.

    A part of which only a bound is known counts as 0 for the lower end, and as its bound for the upper end. There is no
    expected value then.

    Args:
        spent: Spent so far.
        parts: What is still to come; independent of each other.
        basis: Where the parts come from.
    """
    if not parts:
        return Estimate(expected=spent, low=spent, high=spent, basis="nothing is left to do")
    known = [part for part in parts if part.expected is not None]
    bounds = [part.bound for part in parts if part.expected is None]
    expected = spent + math.fsum(part.expected for part in parts if part.expected is not None)
    spreads = [(part.variance, part.freedom) for part in known if part.variance is not None]
    if len(spreads) < len(known):
        return Estimate(expected=None if bounds else expected, low=None, high=None, basis=basis)
    spread = _quantile(spreads) * math.sqrt(math.fsum(variance for variance, _ in spreads))
    more = [bound for bound in bounds if bound is not None]
    return Estimate(
        expected=None if bounds else expected,
        low=max(spent, expected - spread),
        high=expected + spread + math.fsum(more) if len(more) == len(bounds) else None,
        basis=basis,
    )


def _quantile(spreads: Sequence[tuple[float, float]]) -> float:
    """Return the factor of the standard deviation: Student's t, with Welch's and Satterthwaite's degrees of freedom.

    Args:
        spreads: Variance of each part, and its degrees of freedom.
    """
    total = math.fsum(variance for variance, _ in spreads)
    share = math.fsum(variance**2 / freedom for variance, freedom in spreads)
    if not share:
        return _Z
    from scipy.special import stdtrit  # takes longer to load than most watches

    return float(stdtrit(total**2 / share, 1 - _TAIL))
