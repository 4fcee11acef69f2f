"""Spend of cohorts and studies, and what their planned trainings will cost until all of them have ended.

**What trainings that have not started will take.** What trainings of the same arm have taken tells how much it may be:
the sum of ``k`` further ones has the mean ``k * m`` and the variance ``s**2 * (k + k**2 / n)``, where ``m`` and ``s``
are mean and standard deviation of the ``n`` that have ended. The second part is the error of the mean, which all ``k``
share. With fewer than five ended trainings, there is no interval. ``python -m benchmarks time_left`` measures how often
the interval holds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ledger_lab.ledger import STATE_FILE
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS
from ledger_lab.ledger.costs.model import sum_if_known
from ledger_lab.reports.watch.model import TAIL, Estimate, PlannedStudy, Spend, State
from ledger_lab.reports.watch.progress import WatchedRun
from ledger_lab.units import counted

_HOUR_S = 3600.0
_Z = statistics.NormalDist().inv_cdf(1 - TAIL)


@dataclass(frozen=True)
class _Unit:
    """What is added up: money or time."""

    of_run: Callable[[WatchedRun], float | None]
    """What a run has taken so far."""
    left: Callable[[WatchedRun], Estimate | None]
    """What it will still take."""


_USD = _Unit(lambda run: run.usd, lambda run: run.left_usd)
_HOURS = _Unit(
    lambda run: run.facts.wall_s / _HOUR_S,
    lambda run: None if run.left_s is None else run.left_s.times(1 / _HOUR_S),
)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The runs of one cohort, by the training that they belong to: the seed of a training tells which."""

    cohort: str
    planned: int | None
    """Trainings that are planned; ``None`` if their number is unknown."""
    seeds: frozenset[int] | None = None
    """Seeds of the planned trainings; ``None`` if all seeds count. Runs with other seeds cost money, too."""
    runs: tuple[WatchedRun, ...]
    """Its runs, oldest first."""

    @cached_property
    def trainings(self) -> list[list[WatchedRun]]:
        """Runs of each planned training that has any.

        A study plans one training per seed. In another cohort, several trainings may have the same seed: there, a run
        repeats an earlier run with its seed only if that run neither goes on nor has ended for good.
        """
        found: list[list[WatchedRun]] = []
        for each in self.runs:
            seed = each.run.declared.seed
            if self.seeds is not None and seed not in self.seeds:
                continue
            alike = [runs for runs in found if runs[0].run.declared.seed == seed]
            if self.seeds is None:
                alike = [runs for runs in alike if runs[-1].state is not State.RUNNING and not _has_ended(runs[-1])]
            if alike:
                alike[0].append(each)
            else:
                found.append([each])
        return found

    @cached_property
    def ended(self) -> list[list[WatchedRun]]:
        """Trainings that have ended for good."""
        return [runs for runs in self.trainings if any(map(_has_ended, runs))]

    @cached_property
    def unended(self) -> list[list[WatchedRun]]:
        """Trainings that have started, and have not ended for good."""
        return [runs for runs in self.trainings if not any(map(_has_ended, runs))]

    @cached_property
    def live(self) -> list[WatchedRun]:
        """Runs that go on now. With a plan, hung and silent runs are not among them: they must be made again."""
        return [each for each in self.runs if each.state is State.RUNNING or (self.planned is None and each.is_live)]

    @cached_property
    def resumable(self) -> list[WatchedRun]:
        """Latest runs of trainings that were interrupted, and continue from a saved state when they start again."""
        last = [runs[-1] for runs in self.unended if runs[-1].state not in (State.RUNNING, State.ENDED)]
        return [each for each in last if (each.run.directory / STATE_FILE).is_file()]

    @property
    def missing(self) -> int | None:
        """Trainings that must still be started, or started again."""
        if self.planned is None:
            return None
        going_on = sum(any(each.state is State.RUNNING for each in runs) for runs in self.unended)
        return max(0, self.planned - len(self.ended) - going_on)

    def parts(self, unit: _Unit) -> list[Part] | None:
        """Return what its trainings will still take; ``None`` if that is unknown for one of them."""
        missing = self.missing or 0
        resumable = self.resumable[:missing]
        parts: list[Part | None] = [
            None if (left := unit.left(each)) is None else rest_of_run(left) for each in (*self.live, *resumable)
        ]
        if fresh := missing - len(resumable):
            amounts = [sum_if_known([unit.of_run(each) for each in runs]) for runs in self.ended]
            known = [amount for amount in amounts if amount is not None]
            if len(known) < len(amounts):
                return None
            bounds = [bound for each in self.live if (bound := _bound(each, unit)) is not None]
            parts.append(further_trainings(fresh, known, max(bounds, default=None)))
        found = [part for part in parts if part is not None]
        return found if len(found) == len(parts) else None


def _bound(watched: WatchedRun, unit: _Unit) -> float | None:
    """Return what a live run takes at most; ``None`` if it is unknown."""
    left = unit.left(watched)
    most = None if left is None else left.expected if left.high is None else left.high
    return sum_if_known([unit.of_run(watched), most])


def _has_ended(watched: WatchedRun) -> bool:
    """Tell whether a run has ended for good."""
    return watched.state is State.ENDED and watched.run.has_finished()


def study_spend(study: PlannedStudy, runs: Mapping[str, Sequence[WatchedRun]]) -> Spend:
    """Return the spend of a study.

    Args:
        study: The study.
        runs: The runs of each of its cohorts, oldest first.
    """
    planned, seeds = len(study.seeds), frozenset(study.seeds)
    arms = [Arm(cohort=name, planned=planned, seeds=seeds, runs=tuple(own)) for name, own in runs.items()]
    return spend("study", study.name, arms, study.budget_usd, study.budget_h)


def spend(
    kind: Literal["cohort", "study"],
    name: str,
    arms: Sequence[Arm],
    budget_usd: float | None = None,
    budget_h: float | None = None,
) -> Spend:
    """Return the spend of arms together.

    Args:
        kind: What they are.
        name: Its name.
        arms: The arms; one for a cohort.
        budget_usd: What they may cost [USD].
        budget_h: Wall-clock time that they may take together [h].
    """
    runs = [each for arm in arms for each in arm.runs]
    live = [each for each in runs if each.is_live]
    spent_usd = sum_if_known([each.usd for each in runs])
    spent_h = math.fsum(each.facts.wall_s for each in runs) / _HOUR_S
    evaluated = [each.facts for each in runs if each.facts.evaluation_afterwards_s is not None]
    is_planned = all(arm.planned is not None for arm in arms)
    forecast_usd, unknown = None if spent_usd is None else _forecast(arms, _USD, spent_usd), None
    if unpriced := [each.run.run_id for each in runs if each.usd is None]:
        unknown = f"run {unpriced[0]} has no price"
    elif forecast_usd is None:
        unknown = "no training has ended, or a live one has not completed an iteration yet"
    return Spend(
        kind=kind,
        name=name,
        runs=len(runs),
        live_runs=len(live),
        planned=sum(arm.planned or 0 for arm in arms) if is_planned else None,
        missing=sum(arm.missing or 0 for arm in arms) if is_planned else None,
        spent_usd=spent_usd,
        spent_h=spent_h,
        evaluation_usd=sum_if_known([each.evaluation_afterwards_usd for each in evaluated]) if evaluated else None,
        usd_per_hour=sum_if_known([each.usd_per_hour for each in live]),
        forecast_usd=forecast_usd,
        forecast_h=_forecast(arms, _HOURS, spent_h),
        budget_usd=budget_usd,
        budget_h=budget_h,
        unknown=unknown,
    )


def _forecast(arms: Sequence[Arm], unit: _Unit, spent: float) -> Estimate | None:
    """Return what all trainings will have taken in the end; ``None`` if that is unknown."""
    parts: list[Part] = []
    for arm in arms:
        if (own := arm.parts(unit)) is None:
            return None
        parts += own
    live, ended = sum(len(arm.live) for arm in arms), sum(len(arm.ended) for arm in arms)
    missing = sum(arm.missing or 0 for arm in arms)
    words = f"{live} live and {counted(missing, 'missing training')}"
    return add_up(spent, parts, f"{words}, by {ended} that have ended and by the speed of live ones")


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

    return float(stdtrit(total**2 / share, 1 - TAIL))
