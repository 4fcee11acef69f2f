"""What a run cost, and what a policy that works cost: every number with its denominator.

All functions are pure. A value that is not known is None and makes every number that needs it None; it is never
replaced by 0 and never left out of a sum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ledger_lab.costs.prices import Price, check_number


def billable_seconds(wall_s: float, price: Price) -> float:
    """Time that one attempt is billed for on each of its instances [s].

    ``max(minimum, ceil(wall_s / granularity) * granularity)``, as the price entry says. Each attempt is billed as a
    rental of its own: rounding and minimum apply to every attempt, and the time between attempts is not billed.

    Args:
        wall_s: From the start of the attempt to its end row (to its last heartbeat when it was lost) [s]: start-up,
            compile, evaluation and checkpoints included, queue time excluded.
        price: Price entry with the rounding rule.

    Raises:
        ValueError: If ``wall_s`` is negative or not finite.
    """
    check_number("wall_s", wall_s)
    # Differences of clock readings carry float noise, which must not buy another granule.
    granules = math.ceil(round(wall_s / price.billing_granularity_s, 6))
    return float(max(price.billing_minimum_s, granules * price.billing_granularity_s))


def billed_instances(world_size: int, price: Price, accelerators_allocated: int | None = None) -> float:
    """Number of instances that are paid for while a run holds its accelerators.

    Vendors rent whole instances, so by default a run pays for ``ceil(world_size / price.accelerators)`` of them, also
    when it leaves some of their accelerators idle. Where a scheduler hands out single accelerators of a shared node,
    ``accelerators_allocated`` says how many, and the run pays for that share: ``accelerators_allocated /
    price.accelerators``.

    Args:
        world_size: Processes of the run on all nodes, one per accelerator.
        price: Price entry.
        accelerators_allocated: Accelerators that the run occupies, whatever its number of processes; None when it
            occupies whole instances.

    Raises:
        ValueError: If a count is not a whole number of at least 1.
    """
    _check_count("world_size", world_size, at_least=1)
    if accelerators_allocated is None:
        return float(math.ceil(world_size / price.accelerators))
    _check_count("accelerators_allocated", accelerators_allocated, at_least=1)
    return accelerators_allocated / price.accelerators


def billable_usd(
    attempt_wall_s: Sequence[float], price: Price, *, world_size: int, accelerators_allocated: int | None = None
) -> float | None:
    """Spend of one run: all its attempts, failed and preempted ones included [USD].

    ``sum(billable_seconds) / 3600 * billed_instances * usd_per_hour``.

    Args:
        attempt_wall_s: Wall-clock time of each attempt [s]; see :func:`billable_seconds`.
        price: Price entry of the run's instance.
        world_size: Processes of the run on all nodes, one per accelerator.
        accelerators_allocated: See :func:`billed_instances`.

    Returns:
        None when the price is unpriced. 0 when the run is priced and made no attempt.

    Raises:
        ValueError: If a time or a count is out of range.
    """
    billed_s = math.fsum(billable_seconds(wall_s, price) for wall_s in attempt_wall_s)
    instances = billed_instances(world_size, price, accelerators_allocated)
    return None if price.usd_per_hour is None else billed_s / 3600.0 * instances * price.usd_per_hour


def usd_per_billion_env_steps(usd: float | None, env_steps: int | None) -> float | None:
    """Spend per 10⁹ environment steps of training [USD].

    Args:
        usd: Spend of the run, all attempts and phases [USD].
        env_steps: Environment steps that the learner saw, over all processes and attempts; steps of held-out slots
            are not among them.

    Returns:
        None when a value is missing or no step was made.
    """
    per_step = _ratio("usd", usd, "env_steps", env_steps)
    return None if per_step is None else 1e9 * per_step


def env_steps_per_s(env_steps: int | None, train_s: float | None) -> float | None:
    """Train throughput: environment steps per second of training [1/s].

    Args:
        env_steps: Environment steps that the learner saw, over all processes.
        train_s: Seconds in the training loop [s], see :data:`ledger_lab.meters.TRAINING_PHASES`: all of it but
            start-up, compile and evaluation.

    Returns:
        None when a value is missing or no time was spent training.
    """
    return _ratio("env_steps", env_steps, "train_s", train_s)


def updates_per_min(updates: int | None, train_s: float | None) -> float | None:
    """Policy updates (iterations of collect and learn) per minute of training [1/min].

    Args:
        updates: Iterations completed.
        train_s: Seconds in the training phases, as in :func:`env_steps_per_s` [s].

    Returns:
        None when a value is missing or no time was spent training.
    """
    per_s = _ratio("updates", updates, "train_s", train_s)
    return None if per_s is None else 60.0 * per_s


def evaluation_share(evaluate_s: float | None, wall_s: float | None) -> float | None:
    """Fraction of wall-clock time that held-out evaluation took [1].

    Args:
        evaluate_s: Seconds in the phase ``evaluate`` [s].
        wall_s: Wall-clock seconds of the same attempts, all phases [s].

    Returns:
        None when a value is missing or no time passed.

    Raises:
        ValueError: If evaluation took longer than the whole.
    """
    share = _ratio("evaluate_s", evaluate_s, "wall_s", wall_s)
    if share is not None and share > 1.0:
        raise ValueError(f"evaluate_s = {evaluate_s!r} is more than wall_s = {wall_s!r}")
    return share


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunCost:
    """What one run of a cohort cost and what came of it."""

    run: str
    """Name of the run, unique in its cohort."""

    usd: float | None
    """Spend of all attempts of the run [USD], see :func:`billable_usd`; None when the run is unpriced."""

    reached_target: bool
    """Whether a checkpoint of the run was confirmed to meet the target."""

    failed: bool
    """Whether the run ended by a failure (crashed, out of memory, non-finite, lost, invalid, …)."""

    def __post_init__(self) -> None:
        """Check every field."""
        if not self.run:
            raise ValueError("run must be a non-empty text")
        if self.usd is not None:
            check_number("usd", self.usd)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CohortCost:
    """What a cohort cost, and what each checkpoint that meets the target cost.

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
    """Spend of all runs, failed ones included [USD]; None when any of them is unpriced."""

    usd_per_target_reaching_checkpoint: float | None
    """Spend of all runs ÷ runs that reached the target [USD]; None when undefined."""

    at_least_usd: float | None
    """When priced and no run reached the target: the whole spend, a lower bound [USD]; else None."""

    undefined_reason: str | None
    """Why there is no cost per target-reaching checkpoint; None when there is one."""

    def __post_init__(self) -> None:
        """Check the counts and that the numbers agree with them."""
        _check_count("runs", self.runs, at_least=1)
        for name in ("failed_runs", "target_reaching_runs"):
            _check_count(name, getattr(self, name), at_least=0)
            if getattr(self, name) > self.runs:
                raise ValueError(f"{name} = {getattr(self, name)} is more than runs = {self.runs}")
        defined = not self.unpriced_runs and self.target_reaching_runs > 0
        if (self.spend_usd is None) != bool(self.unpriced_runs):
            raise ValueError("spend_usd is known exactly when every run is priced")
        if (self.usd_per_target_reaching_checkpoint is not None) != defined:
            raise ValueError("usd_per_target_reaching_checkpoint needs all prices and a run that reached the target")
        if (self.undefined_reason is None) != defined:
            raise ValueError("undefined_reason goes with an undefined cost per target-reaching checkpoint")
        if self.at_least_usd != (None if defined else self.spend_usd):
            raise ValueError("at_least_usd is the spend of a priced cohort in which no run reached the target")


def cohort_cost(run_costs: Sequence[RunCost]) -> CohortCost:
    """Cost of the runs that were declared together, and of each target-reaching checkpoint among them.

    The cost per target-reaching checkpoint is the spend of **all** runs, failed ones included, divided by the runs that
    reached the target: what one has to spend, on average, to get one policy that works. Without a run that reached it
    the quotient is undefined, and the spend is a lower bound. With any run unpriced there is no sum at all.

    Args:
        run_costs: Every run of the cohort, also those that failed or never started.

    Raises:
        ValueError: If there is no run, or a run appears twice.
    """
    if not run_costs:
        raise ValueError("a cohort has at least one run")
    names = [cost.run for cost in run_costs]
    if len(set(names)) < len(names):
        raise ValueError(f"a run appears twice in the cohort: {', '.join(names)}")
    unpriced = tuple(cost.run for cost in run_costs if cost.usd is None)
    reached = sum(cost.reached_target for cost in run_costs)
    reasons = []
    if unpriced:
        reasons.append(f"{len(unpriced)} of {len(run_costs)} runs unpriced ({', '.join(unpriced)})")
    if not reached:
        reasons.append("no run reached the target")
    spend_usd = None if unpriced else math.fsum(cost.usd for cost in run_costs if cost.usd is not None)
    return CohortCost(
        runs=len(run_costs),
        failed_runs=sum(cost.failed for cost in run_costs),
        target_reaching_runs=reached,
        unpriced_runs=unpriced,
        spend_usd=spend_usd,
        usd_per_target_reaching_checkpoint=None if spend_usd is None or not reached else spend_usd / reached,
        at_least_usd=None if reached else spend_usd,
        undefined_reason="; ".join(reasons) or None,
    )


def _ratio(
    numerator_name: str, numerator: float | None, denominator_name: str, denominator: float | None
) -> float | None:
    """Quotient of two non-negative numbers; None when one is missing or the denominator is 0."""
    for name, value in ((numerator_name, numerator), (denominator_name, denominator)):
        if value is not None:
            check_number(name, value)
    if numerator is None or denominator is None or denominator == 0:
        return None
    return numerator / denominator


def _check_count(name: str, value: object, *, at_least: int) -> None:
    """Refuse what is not a whole number of at least ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}, not {value!r}")
