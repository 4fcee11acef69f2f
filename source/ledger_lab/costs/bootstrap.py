"""Percentile levels of a bootstrap over few runs."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist


def percentile_levels(runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the levels of the two percentiles that bound an interval from a bootstrap over runs.

    A bootstrap over few runs gives intervals that are too narrow: it divides by n instead of n - 1, and treats the
    spread as known. The expanded percentile interval corrects both with percentiles further out (Hesterberg 2015, The
    American Statistician 69:371, section 5.3). For log-normal times, the usual 2.5 % percentiles cover the true value
    in 86 % of cases with 5 runs and in 90 % with 10; the expanded ones cover it in 94 % and 95 %. With fewer than 5
    runs, the interval goes from the smallest to the largest resample, which is still too narrow: 77 % with 3 runs, 50 %
    with 2.

    Args:
        runs: Number of runs that are resampled, at least 2; of two groups, the smaller number.
        confidence: Two-sided confidence level in (0, 1).

    Returns:
        Lower and upper level, in [0, 1].
    """
    normal, freedom = NormalDist(), runs - 1
    z = normal.inv_cdf(0.5 + confidence / 2)
    # The quantile of Student's t (Abramowitz & Stegun 1964, 26.7.5): within 1 % from 5 runs on; with fewer, the
    # interval ends at the outermost resamples anyway.
    t = (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
    tail = normal.cdf(-sqrt(runs / freedom) * t)
    return tail, 1 - tail
