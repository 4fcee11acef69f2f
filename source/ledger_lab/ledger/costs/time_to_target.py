"""Times to the target of a cohort, in which some runs ended before they reached it.

The time of such a run is *censored*: it is only known to be longer than the run.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ledger_lab.ledger.costs.few_runs import exact_interval, permutation_p_value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HALF: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class RunTime:
    """Time of a run to the target, and its whole time."""

    wall_s: float
    """Wall-clock time of all its attempts [s]."""

    to_target_s: float | None
    """Wall-clock time to the proof [s]; None if there is none."""

    @property
    def observed_s(self) -> float:
        """The time to the target; for a run that missed the target, its whole time [s]."""
        return self.wall_s if self.to_target_s is None else self.to_target_s


@dataclass(frozen=True, kw_only=True, slots=True)
class MedianTime:
    """Median time to the target. Exactly one of :attr:`median_s` and :attr:`more_than_s` is known."""

    median_s: float | None
    """The median [s]."""

    is_exact: bool
    """Whether :attr:`median_s` is the median of the runs. It is an estimate if a run ended before it, short of the
    target."""

    more_than_s: float | None
    """Lower bound of the median [s], if too many runs missed the target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeCurve:
    """Estimated share of runs that reached the target by each time: 1 minus the Kaplan-Meier curve."""

    t: list[float]
    """Times at which a run reached the target or ended short of it, in ascending order [s]."""

    share: list[float]
    """Share of runs that reached the target by each of these times."""

    low: list[float]
    """Lower end of the pointwise 95 % interval of the share."""

    high: list[float]
    """Upper end of the same interval."""


def median_time_to_target(runs: Sequence[RunTime]) -> MedianTime:
    """Return the median wall-clock time to the target over all runs, including runs that missed the target.

    If no run ended short of the target before the median, it is exact: runs that ended later are known to be slower.
    With an even number of runs, it is exact only if none ended so before the later of the two middle times. Otherwise
    it is the median of the Kaplan-Meier curve (Kaplan & Meier 1958, JASA 53:457), which assumes that a run that ended
    early would have continued like the other runs. If the curve equals 1/2 between two times, the median is their mean.
    If the curve stays above 1/2, or ends there, only a lower bound is given: the median over each run's time to the
    target or, if it missed the target, its whole time.

    Args:
        runs: Every run of the cohort.

    Raises:
        ValueError: If there is no run.
    """
    if not runs:
        raise ValueError("a median needs at least one run")
    times_s = [math.inf if run.to_target_s is None else run.to_target_s for run in runs]
    median_s, middle_s = statistics.median(times_s), statistics.median_high(times_s)
    missed_s = [run.wall_s for run in runs if run.to_target_s is None]
    if math.isfinite(median_s) and all(wall_s >= middle_s for wall_s in missed_s):
        return MedianTime(median_s=median_s, is_exact=True, more_than_s=None)
    if len(missed_s) < len(runs):
        estimate_s = _median_of_curve(kaplan_meier(runs))
        if estimate_s is not None:
            return MedianTime(median_s=estimate_s, is_exact=False, more_than_s=None)
    return MedianTime(median_s=None, is_exact=False, more_than_s=statistics.median(run.observed_s for run in runs))


def restricted_mean_time(runs: Sequence[RunTime]) -> tuple[float, float]:
    """Return the mean of the time to the target or a limit, whichever comes first, and the limit [s].

    The limit is the longest time of a run, reached or not: up to this time the curve is known, and beyond it, it is
    not. The mean is the area under the Kaplan-Meier curve up to the limit. If no run missed the target, it is the mean
    of the times. If the slowest run reached the target, the curve ends at 0, and a later limit gives the same mean.

    Args:
        runs: Every run of the cohort.

    Raises:
        ValueError: If there is no run.
    """
    if not runs:
        raise ValueError("a mean needs at least one run")
    limit_s = max(run.observed_s for run in runs)
    reached = sum(run.to_target_s is not None for run in runs)
    if reached == len(runs):
        return math.fsum(run.observed_s for run in runs) / len(runs), limit_s
    if not reached:
        return limit_s, limit_s
    curve = [(0.0, 1.0), *kaplan_meier(runs)]
    return math.fsum(share * (end - begin) for (begin, share), (end, _) in itertools.pairwise(curve)), limit_s


def time_curve(runs: Sequence[RunTime]) -> TimeCurve:
    """Return the share of runs that reached the target over time.

    The interval holds for any number of runs. Its lower end takes a run that ended short of the target as one that
    never reaches it, its upper end as one that would have reached it then.

    Args:
        runs: Every run of the cohort.

    Raises:
        ValueError: If there is no run.
    """
    curve = kaplan_meier(runs)
    times = [time_s for time_s, _ in curve]
    over = [[run for run in runs if run.observed_s <= time_s] for time_s in times]
    return TimeCurve(
        t=times,
        share=[1 - left for _, left in curve],
        low=[exact_interval(sum(run.to_target_s is not None for run in each), len(runs))[0] for each in over],
        high=[exact_interval(len(each), len(runs))[1] for each in over],
    )


def kaplan_meier(runs: Sequence[RunTime]) -> list[tuple[float, float]]:
    """Return the Kaplan-Meier estimate of the share of runs that have not reached the target.

    It is that of ``scipy.stats.ecdf``, which takes a second to load.

    Args:
        runs: Every run of the cohort.

    Returns:
        The times at which a run reached the target or ended short of it, in ascending order [s], each with the share
        after it.

    Raises:
        ValueError: If there is no run.
    """
    if not runs:
        raise ValueError("a curve needs at least one run")
    ended = Counter(run.observed_s for run in runs)
    reached = Counter(run.to_target_s for run in runs if run.to_target_s is not None)
    curve, left, share = [], len(runs), 1.0
    for time_s in sorted(ended):
        share *= (left - reached[time_s]) / left
        left -= ended[time_s]
        curve.append((time_s, share))
    return curve


def log_rank_p_value(a: Sequence[RunTime], b: Sequence[RunTime]) -> float | None:
    """Test whether the times to the target of two groups of runs have the same distribution.

    The statistic is that of the log-rank test (Mantel 1966, Cancer Chemother Rep 50:163). Its usual p-value holds for
    many runs only: with two equal groups of 3 to 10 runs, it is below 0.05 in up to 10 % of comparisons. So the p-value
    comes from a permutation test, :func:`~ledger_lab.ledger.costs.few_runs.permutation_p_value`.

    Args:
        a: Every run of one group.
        b: Every run of the other group.

    Returns:
        The two-sided p-value; ``None`` if no run reached the target.

    Raises:
        ValueError: If a group has no run.
    """
    if not a or not b:
        raise ValueError("a test needs at least one run in each group")
    if all(run.to_target_s is None for run in (*a, *b)):
        return None
    return permutation_p_value(len(a), len(b), log_rank_statistic([*a, *b]))


def log_rank_statistic(runs: Sequence[RunTime]) -> Callable[..., NDArray[np.float64]]:
    """Return the statistic of the log-rank test as a function of the runs of one group.

    It is the absolute statistic of ``scipy.stats.logrank``, which takes one pair of groups at a time. A permutation
    test needs it for a thousand.

    Args:
        runs: The runs of both groups.

    Returns:
        A function that takes the numbers of the runs of both groups, as integers of shape (…, runs), and returns the
        statistic of shape (…). It is 0 if all times are equal, which shows no difference.
    """
    import numpy as np

    times = np.array([run.observed_s for run in runs])
    reached = np.array([run.to_target_s is not None for run in runs])
    events = np.unique(times[reached])[:, None]
    at_risk, reaches = times >= events, (times == events) & reached  # of shape (events, runs)
    n, d = at_risk.sum(axis=1), reaches.sum(axis=1)
    spread = d * (n - d) / (n**2 * np.maximum(n - 1, 1))

    def statistic(ours: NDArray[np.int64], theirs: NDArray[np.int64], axis: int = -1) -> NDArray[np.float64]:
        ours = np.moveaxis(ours, axis, -1)
        is_ours = np.zeros((*ours.shape[:-1], len(runs)))
        np.put_along_axis(is_ours, ours, 1.0, axis=-1)
        n_ours, d_ours = is_ours @ at_risk.T, is_ours @ reaches.T  # of shape (…, events)
        difference = (d_ours - n_ours * d / n).sum(axis=-1)
        variance = (n_ours * (n - n_ours) * spread).sum(axis=-1)
        found = np.zeros(difference.shape)
        np.divide(np.abs(difference), np.sqrt(variance), out=found, where=variance > 0)
        return found

    return statistic


def _median_of_curve(curve: Sequence[tuple[float, float]]) -> float | None:
    """Return the time at which a Kaplan-Meier curve falls below 1/2 [s]; ``None`` if it does not."""
    equal = [time_s for time_s, share in curve if math.isclose(share, _HALF)]
    below = [time_s for time_s, share in curve if share < _HALF and time_s not in equal]
    if not below:
        return None
    return (equal[0] + below[0]) / 2 if equal else below[0]
