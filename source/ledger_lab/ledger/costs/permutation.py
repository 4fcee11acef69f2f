"""Permutation tests of two groups of runs."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RESAMPLES: Final = 999


def permutation_p_value(runs_a: int, runs_b: int, statistic: Callable[..., NDArray[Any]]) -> float:
    """Return the share of all ways to split the runs into two groups with a statistic at least as large.

    If there are more than 999 ways, 999 random ones are used (``scipy.stats.permutation_test``). With at most six runs
    in each group, there are fewer.

    Args:
        runs_a: Runs of one group. Its runs have the numbers from 0.
        runs_b: Runs of the other group, with the numbers that follow.
        statistic: Takes the numbers of the runs of both groups, for many pairs of groups at once, and the ``axis``
            along which the runs of a group lie.
    """
    import numpy as np
    from scipy.stats import permutation_test  # takes a second to load

    places = np.arange(runs_a + runs_b)
    found = permutation_test(
        (places[:runs_a], places[runs_a:]),
        statistic,
        alternative="greater",
        n_resamples=_RESAMPLES,
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    return float(found.pvalue)


def least_p_value(runs_a: int, runs_b: int) -> float:
    """Return the smallest p-value that :func:`permutation_p_value` can give with a two-sided statistic.

    Args:
        runs_a: Runs of one group.
        runs_b: Runs of the other group.
    """
    splits = comb(runs_a + runs_b, runs_a)
    if splits > _RESAMPLES:
        return 1 / (_RESAMPLES + 1)
    return (2 if runs_a == runs_b else 1) / splits
