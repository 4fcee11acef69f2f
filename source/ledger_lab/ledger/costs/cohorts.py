"""Cost of a cohort, and cost per policy that reached the target, with failed runs included.

All functions are pure. The order of the runs changes no figure.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ledger_lab.ledger.costs.cost_interval import FEWEST_RUNS, cost_interval


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunCost:
    """Cost and result of one run of a cohort."""

    run: str
    """Name of the run, unique in its cohort."""

    usd: float | None
    """Spend of all attempts of the run [USD], see :func:`billable_usd`; None when the run is unpriced."""

    reached_target: bool
    """Whether a checkpoint of the run was confirmed to meet the target."""

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
    """Runs with a confirmed checkpoint."""

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
