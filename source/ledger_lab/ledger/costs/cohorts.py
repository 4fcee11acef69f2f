"""Cost of a cohort, and cost per policy that reached the target, with failed runs included; its interval and its test.

The order of the runs changes no figure.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ledger_lab.ledger.costs.few_runs import permutation_p_value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST_RUNS: Final = 5
"""Smallest number of runs of each cohort for a claim beyond these runs. With fewer, there are no intervals, because
none is right for all kinds of times and costs, and no tests."""

_DRAWS: Final = 10_000
_COST_OF_A_MISS: Final = 4.0
"""If no run missed the target, the assumed cost of a run that misses it ÷ the cost of the costliest run."""


def cost_draws(runs: Sequence[tuple[float, bool]], generator: np.random.Generator, size: int) -> NDArray[np.float64]:
    """Draw the true cost per target-reaching checkpoint from its distribution, given the spend of some runs.

    The expected cost of one success is ``s + (1 - p) / p * f``: the mean spend ``s`` of a run that reaches the target,
    and before it, on average ``(1 - p) / p`` runs that miss the target, with a mean spend ``f``.

    - The success rate ``p`` is drawn from its posterior under Jeffreys' prior, Beta(k + 1/2, n - k + 1/2) for k of n
      runs. So failures that happen not to be among the runs count, too.
    - Each mean is drawn from Student's t distribution around the mean of its runs, cut off at 0. If only one run is of
      a kind, its spread is that of all runs.
    - If no run missed the target, the cost of such a run is unknown. It is then assumed to be 4 times the largest
      spend, because a run that misses the target uses up its budget, and the others stop early.

    Args:
        runs: Spend of each run [USD], and whether it reached the target; at least two runs, one of which reached it.
        generator: Source of random numbers.
        size: Number of draws.

    Returns:
        Costs [USD]; shape (size,).

    Raises:
        ValueError: If there are fewer than two runs, or none reached the target.
    """
    successes, failures = _by_result(runs)
    import numpy as np  # takes longer to load than most reports

    spends = np.array([*successes, *failures])
    spread = float(spends.std(ddof=1) / spends.mean()) if spends.any() else 0.0
    rate = generator.beta(len(successes) + 0.5, len(failures) + 0.5, size)
    success = _mean_draws(successes, spread, len(runs), generator, size)
    if failures:
        failure = _mean_draws(failures, spread, len(runs), generator, size)
    else:
        failure = np.full(size, _COST_OF_A_MISS * spends.max())
    return success + (1 - rate) / rate * failure


def cost_interval(runs: Sequence[tuple[float, bool]], seed: int = 0, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of the cost per target-reaching checkpoint.

    Its ends are percentiles of :func:`cost_draws`. If all runs reached the target, the lower end assumes that all runs
    do, as the interval of a rate by Jeffreys' prior is usually modified (Brown, Cai & DasGupta 2001, Statistical
    Science 16:101). ``benchmarks/cost_interval.py`` measures how often the interval covers the true cost.

    Args:
        runs: Spend of each run [USD], and whether it reached the target.
        seed: Seed of the draws.
        confidence: Two-sided confidence level in (0, 1).

    Returns:
        Lower and upper end [USD].

    Raises:
        ValueError: If there are fewer runs than :data:`FEWEST_RUNS`, or none reached the target.
    """
    if len(runs) < FEWEST_RUNS:
        raise ValueError(f"an interval needs at least {FEWEST_RUNS} runs")
    import numpy as np

    costs = cost_draws(runs, np.random.default_rng(seed), _DRAWS)
    tail = (1 - confidence) / 2
    low, high = np.quantile(costs, (tail, 1 - tail))
    successes, failures = _by_result(runs)
    if not failures:
        low = np.quantile(_mean_draws(successes, 0.0, len(runs), np.random.default_rng(seed), _DRAWS), tail)
    return float(low), float(high)


def cost_ratio_interval(
    first: Sequence[tuple[float, bool]], second: Sequence[tuple[float, bool]], seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % interval of the ratio of two cohorts' costs per target-reaching checkpoint.

    Its ends are percentiles of the ratio of :func:`cost_draws` of both cohorts, which are drawn independently. As in
    :func:`cost_interval`, the end that would be lower without failures assumes that there are none where there were
    none. If no run of a cohort reached the target, its cost has no upper end; its lower end is the spend on failures
    before the first success. ``benchmarks/cost_interval.py`` measures the coverage.

    Args:
        first: Spend of each run of the first cohort [USD], and whether it reached the target.
        second: The same of the second cohort.
        seed: Seed of the draws.

    Returns:
        Lower end, and upper end, which may be infinite, of the first cost ÷ the second.

    Raises:
        ValueError: If a cohort has fewer runs than :data:`FEWEST_RUNS`.
    """
    if min(len(first), len(second)) < FEWEST_RUNS:
        raise ValueError(f"an interval needs at least {FEWEST_RUNS} runs on each side")
    import numpy as np

    generator = np.random.default_rng(seed)
    (low_first, high_first), (low_second, high_second) = (_draws(runs, generator) for runs in (first, second))
    with np.errstate(divide="ignore", invalid="ignore"):
        lows, highs = low_first / high_second, high_first / low_second
    # Draws of a mean are cut off at 0. What is 0 ÷ 0 can be anything.
    low, high = np.nan_to_num(lows, nan=0.0, posinf=np.inf), np.nan_to_num(highs, nan=np.inf, posinf=np.inf)
    # Order statistics, not interpolation: an infinite ratio must not make a finite one beside it infinite.
    ends = [np.quantile(*each, method="inverted_cdf") for each in ((low, 0.025), (high, 0.975))]
    return float(ends[0]), float(ends[1])


def _draws(
    runs: Sequence[tuple[float, bool]], generator: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw the cost per target-reaching checkpoint of a cohort, for a lower and for an upper end [USD]."""
    import numpy as np

    spends = [usd for usd, _ in runs]
    if not any(reached for _, reached in runs):
        rate = generator.beta(0.5, len(runs) + 0.5, _DRAWS)
        failure = _mean_draws(spends, 0.0, len(runs), generator, _DRAWS)
        return (1 - rate) / rate * failure, np.full(_DRAWS, np.inf)
    costs = cost_draws(runs, generator, _DRAWS)
    if all(reached for _, reached in runs):
        return _mean_draws(spends, 0.0, len(runs), generator, _DRAWS), costs
    return costs, costs


def _by_result(runs: Sequence[tuple[float, bool]]) -> tuple[list[float], list[float]]:
    """Return the spends of the runs that reached the target and of those that missed it [USD], in ascending order.

    Raises:
        ValueError: If there are fewer than two runs, or none reached the target.
    """
    successes = sorted(usd for usd, reached in runs if reached)
    if len(runs) < 2 or not successes:
        raise ValueError("a spread of costs needs at least two runs, one of which reached the target")
    return successes, sorted(usd for usd, reached in runs if not reached)


def _mean_draws(
    spends: Sequence[float], spread: float, runs: int, generator: np.random.Generator, size: int
) -> NDArray[np.float64]:
    """Draw the mean spend of a kind of runs.

    Args:
        spends: Spends of the runs of this kind, at least one [USD].
        spread: Standard deviation of the spends of all runs ÷ their mean; used if there is only one run of this kind.
        runs: Number of all runs. The draws have as many degrees of freedom as the deviations within both kinds: this
            number less 2, or less 1 if all runs are of one kind.
        generator: Source of random numbers.
        size: Number of draws.
    """
    import numpy as np

    mean = float(np.mean(spends))
    deviation = float(np.std(spends, ddof=1)) if len(spends) > 1 else spread * mean
    freedom = runs - 1 if len(spends) in (1, runs) else runs - 2
    return np.maximum(mean + deviation / len(spends) ** 0.5 * generator.standard_t(freedom, size), 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunCost:
    """Cost and result of one run of a cohort."""

    run: str
    """Name of the run, unique in its cohort."""

    usd: float | None
    """Spend of all attempts of the run [USD], see :func:`billable_usd`; None when the run is unpriced."""

    reached_target: bool
    """Whether a checkpoint of the run was proven to meet the target."""

    failed: bool
    """Whether the run ended by a failure (crashed, out of memory, non-finite, lost, invalid, …)."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CohortCost:
    """Cost of a cohort, and cost per target-reaching checkpoint.

    Exactly one of :attr:`usd_per_target_reaching_checkpoint` and :attr:`undefined_reason` is None.
    """

    runs: int
    """Runs declared."""

    failed_runs: int
    """Runs that ended by a failure."""

    target_reaching_runs: int
    """Runs with a proven checkpoint."""

    unpriced_runs: tuple[str, ...]
    """Names of the runs without a price."""

    spend_usd: float | None
    """Spend of all runs, including failed runs [USD]; None when any run is unpriced."""

    usd_per_target_reaching_checkpoint: float | None
    """Spend of all runs ÷ runs that reached the target [USD]; None when undefined."""

    usd_interval: tuple[float, float] | None
    """95 % interval of :attr:`usd_per_target_reaching_checkpoint` [USD], see :func:`cost_interval`; None if the cost is
    undefined, or there are fewer than :data:`FEWEST_RUNS` runs."""

    at_least_usd: float | None
    """The whole spend as a lower bound of the cost [USD], if all runs are priced and none reached the target; else
    None."""

    undefined_reason: str | None
    """Why there is no cost per target-reaching checkpoint; None when there is one."""


def cohort_cost(run_costs: Sequence[RunCost]) -> CohortCost:
    """Return the cost of a cohort, and the cost per target-reaching checkpoint.

    The cost per target-reaching checkpoint is the spend of **all** runs, failed ones included, divided by the number of
    runs that reached the target. This is the average spend per policy that works. If no run reached the target, the
    quotient is undefined, and the spend is a lower bound. If any run is unpriced, there is no sum.

    Args:
        run_costs: Every run of the cohort, including runs that failed or never started.

    Raises:
        ValueError: If there is no run, or a run appears twice.
    """
    if not run_costs:
        raise ValueError("a cohort has at least one run")
    names = [cost.run for cost in run_costs]
    if len(set(names)) < len(names):
        raise ValueError(f"a run appears twice in the cohort: {', '.join(names)}")
    unpriced = tuple(sorted(cost.run for cost in run_costs if cost.usd is None))
    reached = sum(cost.reached_target for cost in run_costs)
    reasons = []
    if unpriced:
        reasons.append(f"{len(unpriced)} of {len(run_costs)} runs unpriced ({', '.join(unpriced)})")
    if not reached:
        reasons.append("no run reached the target")
    priced = [(cost.usd, cost.reached_target) for cost in run_costs if cost.usd is not None]
    spend_usd = None if unpriced else math.fsum(usd for usd, _ in priced)
    return CohortCost(
        runs=len(run_costs),
        failed_runs=sum(cost.failed for cost in run_costs),
        target_reaching_runs=reached,
        unpriced_runs=unpriced,
        spend_usd=spend_usd,
        usd_per_target_reaching_checkpoint=None if spend_usd is None or not reached else spend_usd / reached,
        usd_interval=cost_interval(priced) if reached and not unpriced and len(priced) >= FEWEST_RUNS else None,
        at_least_usd=None if reached else spend_usd,
        undefined_reason="; ".join(reasons) or None,
    )


def cost_p_value(a: Sequence[tuple[float, bool]], b: Sequence[tuple[float, bool]]) -> float | None:
    """Test whether spend and success of two groups of runs have the same distribution.

    The statistic is the difference of the runs that reached the target per spent USD. This is the inverse of the cost
    per target-reaching checkpoint, and finite for a group that never reached the target. The p-value is that of
    :func:`~ledger_lab.ledger.costs.few_runs.permutation_p_value`.

    Args:
        a: Spend of each run of one group [USD], and whether it reached the target.
        b: The same of the other group.

    Returns:
        The two-sided p-value; ``None`` if no run reached the target, or all runs of a possible group cost nothing.

    Raises:
        ValueError: If a group has no run.
    """
    import numpy as np

    if not a or not b:
        raise ValueError("a test needs at least one run in each group")
    spends, reached = (np.array(column, dtype=float) for column in zip(*a, *b, strict=True))
    free = int((spends == 0).sum())
    if not reached.any() or free >= min(len(a), len(b)):
        return None

    def statistic(ours: NDArray[Any], theirs: NDArray[Any], axis: int = -1) -> NDArray[Any]:
        per_usd = [reached[group].sum(axis=axis) / spends[group].sum(axis=axis) for group in (ours, theirs)]
        return np.abs(per_usd[0] - per_usd[1])

    return permutation_p_value(len(a), len(b), statistic)
