"""Times and costs to a target as estimates: a figure, its uncertainty, and the spread between single runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ledger_lab.costs import FEWEST_RUNS, RunTime, cost_draws, cost_interval, median_time_to_target
from ledger_lab.scaling.points import ScaledRun
from ledger_lab.scaling.positive_fit import fit_positive

Z = statistics.NormalDist().inv_cdf(0.975)
"""Half the width of a 95 % interval [standard deviations]."""

_DRAWS = 4000
_LEVELS = (0.025, 0.975)
_JUST_ABOVE = 1 + 1e-9


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure of at least 0. For decisions, its logarithm is taken to be normal. What costs nothing is 0 for sure."""

    value: float
    interval: tuple[float, float]
    """95 % interval."""
    run_spread: float
    """Standard deviation of the logarithm of what one more run would measure."""

    @property
    def deviation(self) -> float:
        """Standard deviation of the logarithm, by the width of the interval."""
        low, high = self.interval
        return math.log(high / low) / (2 * Z) if self.value else 0.0

    def times(self, factor: float) -> Estimate:
        """Return the estimate in another unit.

        Args:
            factor: What to multiply it with; more than 0.
        """
        low, high = self.interval
        return replace(self, value=self.value * factor, interval=(low * factor, high * factor))

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


def time_to_target(runs: Sequence[ScaledRun]) -> Estimate:
    """Estimate the median wall-clock time to the target.

    The figure is the Kaplan-Meier median. Its interval is that of the median of a log-normal distribution, fitted to
    all runs, and is extended to the figure if the runs are so skewed that it lies outside. Runs that missed the target,
    or were interrupted, are censored in both.

    Args:
        runs: Every run of a configuration, also those that were interrupted.

    Returns:
        The estimate [s].

    Raises:
        ValueError: If too few runs reached the target. The message says what is known.
    """
    median = median_time_to_target([RunTime(wall_s=run.wall_s, to_target_s=run.time_to_target_s) for run in runs])
    if median.median_s is None:
        raise ValueError(f"too few runs reached the target: its median time is more than {median.more_than_s:.4g} s")
    fitted = _fitted(*_times(runs))
    low, high = fitted.interval
    return replace(fitted, value=median.median_s, interval=(min(low, median.median_s), max(high, median.median_s)))


def samples_to_target(runs: Sequence[ScaledRun]) -> Estimate:
    """Estimate the median samples to the target of runs with the same batch.

    Args:
        runs: The runs.

    Raises:
        ValueError: If too few runs reached the target.
    """
    measured = [float(run.identity.steps) for run in runs]
    limits = [
        max(run.limit_steps, run.identity.steps) + 1.0 if run.reached else float(run.identity.steps) for run in runs
    ]
    return _fitted(measured, limits)


def cost_per_target(runs: Sequence[ScaledRun]) -> Estimate:
    """Estimate the cost per target-reaching checkpoint: the spend of all runs ÷ the runs that reached the target.

    Args:
        runs: Every run of a configuration that was not interrupted.

    Returns:
        The estimate [USD]. Its interval is that of :func:`~ledger_lab.costs.cost_interval`; with fewer runs than it
        takes, the interval only tells what one more run may be worth.

    Raises:
        ValueError: If a run has no price, or too few runs reached the target.
    """
    spent = [(run.billable_usd, run.reached) for run in runs]
    priced = [(usd, reached) for usd, reached in spent if usd is not None]
    if len(priced) < len(spent):
        raise ValueError("unpriced")
    if any(reached for _, reached in priced) and not any(usd for usd, _ in priced):
        return FREE
    draws = cost_draws(priced, np.random.default_rng(0), _DRAWS)
    low, high = cost_interval(priced) if len(priced) >= FEWEST_RUNS else (float(q) for q in np.quantile(draws, _LEVELS))
    value = math.fsum(usd for usd, _ in priced) / sum(reached for _, reached in priced)
    least = value * 1e-3  # draws of a mean are cut off at 0
    estimate = Estimate(value=value, interval=(max(low, least), max(high, least)), run_spread=0.0)
    return replace(estimate, run_spread=estimate.deviation * math.sqrt(len(runs)))


def _times(runs: Sequence[ScaledRun]) -> tuple[list[float], list[float]]:
    """Return the time of each run to its target or end, and the time at which it would have ended without it [s]."""
    observed = [run.wall_s if run.time_to_target_s is None else run.time_to_target_s for run in runs]
    limits = [
        time_s * max(run.limit_steps / max(run.identity.steps, 1), 1.0) * _JUST_ABOVE if run.reached else time_s
        for run, time_s in zip(runs, observed, strict=True)
    ]
    return observed, limits


def _fitted(measured: Sequence[float], limits: Sequence[float]) -> Estimate:
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
    low, high = np.quantile(fit.draws[:, 0], _LEVELS)
    return Estimate(value=float(fit.coefficients[0]), interval=(float(low), float(high)), run_spread=fit.spread)
