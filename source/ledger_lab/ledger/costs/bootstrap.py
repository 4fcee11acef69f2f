"""Percentile levels of a bootstrap over few runs."""

from __future__ import annotations

from math import sqrt


def percentile_levels(runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the levels of the two percentiles that bound an interval from a bootstrap over runs.

    A bootstrap over few runs gives intervals that are too narrow: it divides by n instead of n - 1, and treats the
    spread as known. The expanded percentile interval corrects both by percentiles that are closer to 0 % and 100 %
    (Hesterberg 2015, The American Statistician 69:371, section 5.3). For log-normal times, the usual 2.5 % percentiles
    cover the true value in 86 % of cases with 5 runs and in 90 % with 10; the expanded ones cover it in 94 % and 95 %.
    With fewer than 5 runs, the interval goes from the smallest to the largest resample, which is still too narrow: 77 %
    with 3 runs, 50 % with 2.

    Args:
        runs: Number of runs that are resampled, at least 2. If two groups are compared, the number of runs of the
            smaller group.
        confidence: Two-sided confidence level in (0, 1).

    Returns:
        Lower and upper level, in [0, 1].
    """
    from scipy.special import ndtr, stdtrit  # takes longer to load than most reports

    tail = float(ndtr(sqrt(runs / (runs - 1)) * stdtrit(runs - 1, (1 - confidence) / 2)))
    return tail, 1 - tail
