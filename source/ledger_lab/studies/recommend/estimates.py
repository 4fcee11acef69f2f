"""Times and costs to a target as estimates: a figure, its uncertainty, and the spread between single runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS, cost_draws, cost_interval
from ledger_lab.ledger.costs.model import sum_if_known
from ledger_lab.ledger.costs.time_to_target import RunTime, median_time_to_target
from ledger_lab.studies.scaling.points import ScaledRun
from ledger_lab.studies.scaling.positive_fit import fit_positive

Z = statistics.NormalDist().inv_cdf(0.975)
"""Half the width of a 95 % interval [standard deviations]."""

_DRAWS = 4000
_JUST_ABOVE = 1 + 1e-9


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure of at least 0. For decisions, its logarithm is taken to be normal. What costs nothing is 0 for sure."""

    value: float
    interval: tuple[float, float]
    """95 % interval, unless another confidence was asked for; the upper end may be infinite."""
    run_spread: float
    """Standard deviation of the logarithm of what one more run would measure."""

    @property
    def deviation(self) -> float:
        """Standard deviation of the logarithm, by the width of a 95 % interval, or of its lower half."""
        low, high = self.interval
        if not self.value:
            return 0.0
        return math.log(high / low) / (2 * Z) if math.isfinite(high) else math.log(self.value / low) / Z

    def chance_below(self, limit: float, *, single: bool) -> float:
        """Return the probability of at most a limit.

        Args:
            limit: The limit, in the unit of the estimate; more than 0.
            single: Whether to ask about one more run, or about the estimated figure.
        """
        if not self.value:
            return 1.0
        spread = math.hypot(self.deviation, self.run_spread if single else 0.0)
        apart = math.log(limit / self.value)
        return float(apart >= 0) if spread == 0 else statistics.NormalDist().cdf(apart / spread)


FREE = Estimate(value=0.0, interval=(0.0, 0.0), run_spread=0.0)
"""What a training costs on a machine that is free of charge."""


def time_to_target(runs: Sequence[ScaledRun], confidence: float = 0.95) -> Estimate:
    """Estimate the median wall-clock time to the target.

    The figure is the Kaplan-Meier median. Its interval contains two: that of the median of a log-normal distribution,
    fitted to all runs, and that of two order statistics (Conover 1999, Practical Nonparametric Statistics, section
    3.2), which holds for every distribution. A run that missed the target, or was interrupted, is censored: the lower
    end takes its end for its time, and the upper end its time to be endless. With fewer than six runs, no two order
    statistics have a confidence of 95 %; those of five runs have 94 %.

    Args:
        runs: Every run of a configuration, also those that were interrupted.
        confidence: Confidence of the interval, in (0, 1).

    Returns:
        The estimate [s].

    Raises:
        ValueError: If too few runs reached the target. The message says what is known.
    """
    from scipy.stats import binom

    median = median_time_to_target(
        [RunTime(wall_s=run.summary.wall_s, to_target_s=run.time_to_target_s) for run in runs]
    )
    if median.median_s is None:
        raise ValueError(f"too few runs reached the target: its median time is more than {median.more_than_s:.4g} s")
    observed, limits = _times(runs)
    fitted = _fitted(observed, limits, confidence)
    times = sorted(math.inf if run.time_to_target_s is None else run.time_to_target_s for run in runs)
    outside = max(int(binom.ppf((1 - confidence) / 2, len(runs), 0.5)) - 1, 0)
    low, high = sorted(observed)[outside], times[-1 - outside]
    return replace(
        fitted,
        value=median.median_s,
        interval=(min(low, fitted.interval[0], median.median_s), max(high, fitted.interval[1], median.median_s)),
    )


def cost_per_target(runs: Sequence[ScaledRun], confidence: float = 0.95) -> Estimate:
    """Estimate the cost per target-reaching checkpoint: the spend of all runs ÷ the runs that reached the target.

    Args:
        runs: Every run of a configuration, also those that were interrupted.
        confidence: Confidence of the interval, in (0, 1).

    Returns:
        The estimate [USD]. Its interval is that of :func:`~ledger_lab.ledger.costs.cohorts.cost_interval`; with fewer
        runs than it takes, the interval only tells what one more run may be worth.

    Raises:
        ValueError: If a run has no price, or too few runs reached the target.
    """
    spent = [(sum_if_known([run.summary.billable_usd, run.repeated_usd]), run.reached) for run in runs]
    priced = [(usd, reached) for usd, reached in spent if usd is not None]
    if len(priced) < len(spent):
        raise ValueError("unpriced")
    if any(reached for _, reached in priced) and not any(usd for usd, _ in priced):
        return FREE
    draws = cost_draws(priced, np.random.default_rng(0), _DRAWS)
    low, high = cost_interval(priced, confidence=confidence) if len(priced) >= FEWEST_RUNS else _ends(draws, confidence)
    value = math.fsum(usd for usd, _ in priced) / sum(reached for _, reached in priced)
    least = value * 1e-3  # draws of a mean are cut off at 0
    estimate = Estimate(value=value, interval=(max(low, least), max(high, least)), run_spread=0.0)
    return replace(estimate, run_spread=estimate.deviation * math.sqrt(len(runs)))


def _times(runs: Sequence[ScaledRun]) -> tuple[list[float], list[float]]:
    """Return the time of each run to its target or end, and the time at which it would have ended without it [s]."""
    observed = [run.summary.wall_s if run.time_to_target_s is None else run.time_to_target_s for run in runs]
    limits = [
        time_s * max(run.limit_steps / max(run.identity.steps, 1), 1.0) * _JUST_ABOVE if run.reached else time_s
        for run, time_s in zip(runs, observed, strict=True)
    ]
    return observed, limits


def _ends(draws: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """Return the ends of the middle of some draws."""
    low, high = np.quantile(draws, ((1 - confidence) / 2, (1 + confidence) / 2))
    return float(low), float(high)


def _fitted(measured: Sequence[float], limits: Sequence[float], confidence: float) -> Estimate:
    """Fit a log-normal distribution; a run is censored if what it measured is at its limit.

    Raises:
        ValueError: If fewer than two runs are not censored.
    """
    if sum(value < limit for value, limit in zip(measured, limits, strict=True)) < 2:
        raise ValueError("fewer than two runs reached the target, so the spread between runs is unknown")
    if min(measured) <= 0:
        raise ValueError("a run took no time")
    fit = fit_positive(
        np.ones((len(measured), 1)), np.array(measured), np.array(limits), draws=_DRAWS,
        generator=np.random.default_rng(0),
    )  # fmt: skip
    ends = _ends(fit.draws[:, 0], confidence)
    return Estimate(value=float(fit.coefficients[0]), interval=ends, run_spread=fit.spread)
