"""Estimates what runs and planned trainings will still take, with intervals.

**The time that a run has left.** With earlier runs of the same settings, the estimate is their Kaplan-Meier curve on
condition that the run has come this far. The run itself is added to the runs that needed longer than it has taken so
far. Nothing tells it from them, so it needs longer than the ``k``-th of ``m`` such runs with a probability of ``1 - k /
(m + 1)``. Therefore the interval holds for any distribution of the times, and few earlier runs give a wide interval. A
run also ends at its last iteration, or at its time limit (``--limit_s``); the shorter of the two times bounds every
estimate, and is the whole estimate if there are no earlier runs.

**What trainings that have not started will take.** What trainings of the same arm have taken tells how much it may be:
the sum of ``k`` further ones has the mean ``k * m`` and the variance ``s**2 * (k + k**2 / n)``, where ``m`` and ``s``
are mean and standard deviation of the ``n`` that have ended. The second part is the error of the mean, which all ``k``
share. With fewer than five ended trainings, there is no interval.

``python -m benchmarks time_left`` measures how often both intervals hold.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger_lab.ledger import Run, StateRestored
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS
from ledger_lab.ledger.costs.model import billable_usd
from ledger_lab.ledger.costs.time_to_target import RunTime, kaplan_meier
from ledger_lab.ledger.meters.phases import LOOP_PHASES
from ledger_lab.reports.facts import RunFacts
from ledger_lab.reports.watch.model import CONFIDENCE, Estimate
from ledger_lab.units import counted

_TAIL: Final = (1 - CONFIDENCE) / 2
_Z: Final = statistics.NormalDist().inv_cdf(1 - _TAIL)
_ROUNDING: Final = 1e-9
_HOUR_S: Final = 3600.0
_END: Final = "its last iteration, at its own speed, or its time limit"


def seconds_to_last_iteration(run: Run) -> float | None:
    """Return the time until the last iteration of a run, at the speed of its last attempt [s].

    The speed is that of the training loop, scoring included. Neither start-up nor the time after the last row counts.

    Args:
        run: The run.

    Returns:
        ``None`` before the first iteration of the attempt.
    """
    if not run.attempts:
        return None
    attempt = run.attempts[-1]
    before = max((row.iteration for row in attempt.of(StateRestored)), default=0)
    done = attempt.sums.iterations - before
    if done <= 0:
        return None
    loop_s = sum(ns for phase, ns in attempt.sums.phase_ns.items() if phase in LOOP_PHASES) / 1e9
    return max(run.declared.max_iterations - attempt.sums.iterations, 0) * loop_s / done


def seconds_to_end(run: Run) -> float | None:
    """Return the time until a run ends short of its target, at its last iteration or its time limit [s].

    Args:
        run: The run.

    Returns:
        ``None`` if the time is unknown.
    """
    known = [left_s for left_s in (seconds_to_last_iteration(run), run.limit_left_s) if left_s is not None]
    return max(min(known), 0.0) if known else None


def time_left(earlier: Sequence[RunTime], spent_s: float, bound_s: float | None) -> Estimate | None:
    """Estimate the time until a run is confirmed to reach its target, or ends short of it.

    Args:
        earlier: Earlier runs with the same settings. For the estimate, a run that ended short of the target would have
            gone on like the others.
        spent_s: Wall-clock time of the run so far [s].
        bound_s: Time until it ends short of its target [s]; ``None`` if unknown.

    Returns:
        The estimate [s]; ``None`` if nothing is known.
    """
    beyond = [run for run in earlier if run.observed_s > spent_s]
    later = sum(run.to_target_s is not None for run in beyond)
    basis = f"{later} of {counted(len(earlier), 'earlier run')} with the same settings reached the target later"
    if not later:
        if bound_s is None:
            return None
        return Estimate(expected=None, low=None, high=bound_s, basis=f"at most until {_END}: {basis}")
    endless = RunTime(wall_s=2 * max(run.observed_s for run in beyond) + 1, to_target_s=None)
    curve = kaplan_meier([*beyond, endless]).sf  # the run itself, which comes after all of them
    steps = [(float(t), float(above)) for t, above in zip(curve.quantiles, curve.probabilities, strict=True)]
    low_s = max((t for t, above in steps if 1 - above <= _TAIL + _ROUNDING), default=spent_s) - spent_s
    bounds = [] if bound_s is None else [bound_s]

    def first_below(share: float) -> float | None:
        return min([*[t - spent_s for t, above in steps if above <= share + _ROUNDING], *bounds], default=None)

    return Estimate(expected=first_below(0.5), low=min([low_s, *bounds]), high=first_below(_TAIL), basis=basis)


def time_to_end(run: Run) -> Estimate | None:
    """Estimate the time until the end of a run that does not end at its target [s].

    Args:
        run: The run.

    Returns:
        The estimate; only a bound before its first iteration, and ``None`` if nothing is known.
    """
    if (bound_s := seconds_to_end(run)) is None:
        return None
    is_known = seconds_to_last_iteration(run) is not None
    basis = f"until {_END}, because it does not stop at its target"
    return Estimate(expected=bound_s if is_known else None, low=None, high=None if is_known else bound_s, basis=basis)


def usd_per_hour(facts: RunFacts) -> float | None:
    """Return what a run costs per hour while it goes on [USD/h].

    The power of hardware that the user owns is taken to stay that of the last attempt.

    Args:
        facts: The run.

    Returns:
        The cost; ``None`` if the run has no price, or the energy that it needs is unknown.
    """
    if not facts.run.attempts:
        return None
    wall_h, kwh = facts.run.attempts[-1].wall_ns / (1e9 * _HOUR_S), [*facts.energy.attempt_kwh][-1]
    hours = max(1.0, facts.price.billing_granularity_s / _HOUR_S)  # because a price may be rounded up to days
    cost = billable_usd(
        [hours * _HOUR_S],
        facts.price,
        devices=facts.declared.devices,
        machines=facts.declared.machines,
        attempt_kwh=[None if kwh is None or not wall_h else hours * kwh / wall_h],
    )
    return None if cost is None else cost / hours


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of what is still to come."""

    expected: float | None
    """``None`` if only a bound is known."""
    variance: float | None
    """Variance of the part; ``None`` if its spread is unknown."""
    freedom: float = math.inf
    """Degrees of freedom of the variance."""
    bound: float | None = None
    """Upper bound; ``None`` if there is none."""


def further_trainings(count: int, ended: Sequence[float], bound: float | None) -> Part | None:
    """Return what further trainings of an arm will take together.

    Args:
        count: Their number, at least 1.
        ended: What the trainings of the arm that have ended took, each.
        bound: Upper bound of one training, used if none has ended; ``None`` if unknown.

    Returns:
        The part; ``None`` if nothing is known.
    """
    if not ended:
        return None if bound is None else Part(expected=None, variance=None, bound=count * bound)
    mean = statistics.fmean(ended)
    if len(ended) < FEWEST_RUNS:
        return Part(expected=count * mean, variance=None)
    variance = statistics.variance(ended) * (count + count**2 / len(ended))
    return Part(expected=count * mean, variance=variance, freedom=len(ended) - 1)


def rest_of_run(left: Estimate) -> Part:
    """Return what a run that goes on will still take.

    Args:
        left: Its estimate.
    """
    if left.expected is None:
        return Part(expected=None, variance=None, bound=left.high)
    if left.low is None and left.high is None:
        return Part(expected=left.expected, variance=0.0)  # its last iteration, at its own speed, or its time limit
    if left.low is None or left.high is None:
        return Part(expected=left.expected, variance=None)
    return Part(expected=left.expected, variance=((left.high - left.low) / (2 * _Z)) ** 2, bound=left.high)


def add_up(spent: float, parts: Sequence[Part], basis: str) -> Estimate:
    """Return the sum of what is spent and what is still to come.

    A part of which only a bound is known counts as 0 for the lower end, and as its bound for the upper end. There is no
    expected value then.

    Args:
        spent: Spent so far.
        parts: What is still to come; independent of each other.
        basis: Where the parts come from.
    """
    if not parts:
        return Estimate(expected=spent, low=spent, high=spent, basis="nothing is left to do")
    known = [part for part in parts if part.expected is not None]
    bounds = [part.bound for part in parts if part.expected is None]
    sum_of_known = spent + math.fsum(part.expected for part in parts if part.expected is not None)
    expected = None if bounds else sum_of_known
    spreads = [(part.variance, part.freedom) for part in known if part.variance is not None]
    if len(spreads) < len(known):
        return Estimate(expected=expected, low=None, high=None, basis=basis)
    spread = _quantile(spreads) * math.sqrt(math.fsum(variance for variance, _ in spreads))
    more = [bound for bound in bounds if bound is not None]
    high = sum_of_known + spread + math.fsum(more) if len(more) == len(bounds) else None
    return Estimate(expected=expected, low=max(spent, sum_of_known - spread), high=high, basis=basis)


def _quantile(spreads: Sequence[tuple[float, float]]) -> float:
    """Return the factor of the standard deviation: Student's t, with Welch's and Satterthwaite's degrees of freedom.

    Args:
        spreads: Variance of each part, and its degrees of freedom.
    """
    total = math.fsum(variance for variance, _ in spreads)
    share = math.fsum(variance**2 / freedom for variance, freedom in spreads)
    if not share:
        return _Z
    from scipy.special import stdtrit  # takes longer to load than most watches

    return float(stdtrit(total**2 / share, 1 - _TAIL))
