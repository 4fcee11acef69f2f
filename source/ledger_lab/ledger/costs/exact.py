"""Interval of a share that holds for any number of runs."""

from __future__ import annotations


def exact_interval(count: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a share (Clopper & Pearson 1934, Biometrika 26:404).

    It also holds for the mean of the shares of several kinds of runs, if each kind has a fixed number of runs: then
    the count varies less than for equal shares (Hoeffding 1956, Annals of Mathematical Statistics 27:713).

    Args:
        count: Runs that count.
        runs: All runs, at least 1.
        confidence: Two-sided confidence level in (0, 1).

    Returns:
        Lower and upper end, in [0, 1].
    """
    from scipy.special import betaincinv  # takes longer to load than most reports

    tail = (1 - confidence) / 2
    low = betaincinv(count, runs - count + 1, tail) if count else 0.0
    high = betaincinv(count + 1, runs - count, 1 - tail) if count < runs else 1.0
    return float(low), float(high)
