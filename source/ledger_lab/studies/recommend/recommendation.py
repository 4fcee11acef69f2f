"""Chooses among the configurations that a task was trained with: the least time or money, within limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ledger_lab.errors import UserError
from ledger_lab.ledger import Status
from ledger_lab.ledger.comparability import differing, settings
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS
from ledger_lab.ledger.costs.model import pareto_front as front_of
from ledger_lab.studies.recommend.estimates import Estimate, cost_per_target, time_to_target
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint, Setting, sizes_of

SURE = 0.9
"""Least probability of keeping a deadline or a budget for a configuration to be chosen."""
_CONFIDENCE = 0.95
_DRAWS = 10_000
_MOST_NAMED = 3
"""Most names of runs or cohorts in a message."""
_TOLD = ("code_sha256", "git", "price")
"""Fields whose differences have notes of their own."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A configuration with its time and its cost to the target."""

    setting: Setting
    size: ScalingPoint
    """Its size, with its runs."""
    time: Estimate | None
    """Median wall-clock time to the target [s]; ``None`` if too few runs reached it."""
    cost: Estimate | None
    """Cost per target-reaching checkpoint [USD]; ``None`` if unpriced, or too few runs reached the target."""
    notes: tuple[str, ...] = ()
    """What a reader must know about the figures."""

    @property
    def runs(self) -> int:
        """How many runs are behind it."""
        return len(self.size.runs)

    @property
    def reached(self) -> int:
        """How many of them reached the target."""
        return sum(run.reached for run in self.size.runs)

    @property
    def ranked(self) -> bool:
        """Whether there are enough runs to rank it."""
        return self.runs >= FEWEST_RUNS


class Goal(StrEnum):
    """What is to be as small as possible."""

    TIME = "time"
    MONEY = "money"

    def of(self, option: Option) -> Estimate | None:
        """Return the time or the cost of an option."""
        return option.time if self is Goal.TIME else option.cost


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a training may take. ``None`` means no limit."""

    deadline_s: float | None = None
    """Wall-clock time until the target [s]."""
    budget_usd: float | None = None
    """Cost per target-reaching checkpoint [USD]."""

    @property
    def are_set(self) -> bool:
        """Whether there is a limit."""
        return self.deadline_s is not None or self.budget_usd is not None

    @property
    def goals(self) -> tuple[Goal, ...]:
        """What they leave to decide."""
        if (self.deadline_s is None) == (self.budget_usd is None):
            return (Goal.TIME, Goal.MONEY)
        return (Goal.TIME,) if self.deadline_s is None else (Goal.MONEY,)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The recommended option for a goal."""

    goal: Goal
    option: Option | None
    """``None`` if no option has enough runs, the figure, and a large enough probability of keeping the limits. Its
    intervals hold for all that may be chosen together, so that they hold for the best of them, too."""
    among: int
    """How many options may be chosen."""
    chance_best: float | None
    """Probability that it is really the best of those that may be chosen; ``None`` without one."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What to train a task with."""

    setting: Setting
    """The setting of the newest run; the others have its task, panel and target."""
    limits: Limits
    options: tuple[Option, ...]
    """Those with a known time first; each by time."""
    choices: tuple[Choice, ...]
    """For the least time, and for the least money; under a limit, only what it leaves to decide."""
    front: tuple[Option, ...]
    """The Pareto front of time and cost, the fastest first."""
    remarks: tuple[str, ...]
    """What a reader must know about the whole, such as runs that are left out."""

    def place_of(self, option: Option) -> int:
        """Return the place of an option among all, whatever the confidence of its intervals."""
        return next(place for place, each in enumerate(self.options) if each.size is option.size)


def recommend(runs: Sequence[ScaledRun], limits: Limits, *, never_began: int = 0) -> Recommendation:
    """Recommend a configuration.

    Args:
        runs: Runs with the same target on the same panel, oldest first; at least one.
        limits: What the training may take.
        never_began: Runs of the task without an attempt, which are not among the runs.

    Raises:
        UserError: If a budget is given and no machine has a price.
    """
    running = [each for each in runs if each.summary.status == Status.RUNNING]
    repeated = [each for each in runs if each.repeated and each not in running]
    complete = [each for each in runs if each not in running and each not in repeated]
    ended = [each for each in complete if each.declared.code == complete[-1].declared.code]
    prices = {each.summary.instance: each.summary.usd_per_hour for each in runs}
    unpriced = sorted(name for name, price in prices.items() if price is None)
    if limits.budget_usd is not None and len(unpriced) == len(prices):
        raise UserError(f"--budget: {', '.join(unpriced)} has no price: give --usd_per_hour, or --instance")
    left_out = (
        (len(running), "that still run"),
        (len(repeated), "that made the same trainings as others (their cost counts)"),
        (never_began, "that were declared, and never began"),
        (
            len(complete) - len(ended),
            "runs by other versions of the code or its packages than that of the newest run, which may differ in "
            "speed: to rank them, name the runs or cohorts of one version",
        ),
    )
    remarks = [f"left out: {count} {what}" for count, what in left_out if count]
    remarks += [
        f"{name} has no price, so its cost is not ranked: give --usd_per_hour, or train with --instance"
        for name in unpriced
    ]
    options = measured_options(ended)
    options.sort(key=lambda each: math.inf if each.time is None else each.time.value)
    return Recommendation(
        setting=runs[-1].setting,
        limits=limits,
        options=tuple(options),
        choices=tuple(choose(options, goal, limits) for goal in limits.goals),
        front=tuple(pareto_front(options)),
        remarks=tuple(remarks),
    )


def of_one_yardstick(runs: Sequence[ScaledRun], target: float | None) -> list[ScaledRun]:
    """Return the runs that can be ranked together.

    Args:
        runs: Runs of one task; at least one.
        target: Success rate that they must have been trained to; ``None`` if all have the same.

    Raises:
        UserError: If no run has this target, or they were not trained to the same target on the same panel.
    """
    task = runs[0].summary.task
    found = [each for each in runs if target is None or abs(each.summary.target_success - target) < 1e-9]
    if not found:
        targets = ", ".join(f"{value:.12g}" for value in sorted({each.summary.target_success for each in runs}))
        raise UserError(f"--target {target:.12g}: no run of {task} was trained to it; its runs have --target {targets}")
    groups: dict[str, list[ScaledRun]] = {}
    for each in found:
        groups.setdefault(each.summary.measured_by, []).append(each)
    if len(groups) > 1:
        raise UserError(
            f"recommend {task}: runs with different panels, targets or rules can't be ranked together: give --target, "
            f"or name the runs or cohorts of one group: {'; '.join(map(_group_words, groups.values()))}"
        )
    return found


def _group_words(runs: Sequence[ScaledRun]) -> str:
    """Return runs of one yardstick with their names for the command line."""
    names, first = list(dict.fromkeys(each.summary.cohort or each.run_id for each in runs)), runs[0].summary
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return (
        f"{len(runs)} with panel {first.panel} ({first.panel_id[:11]}…) and --target {first.target_success:.12g} "
        f"({', '.join(names[:_MOST_NAMED])}{more})"
    )


def measured_options(runs: Sequence[ScaledRun]) -> list[Option]:
    """Return an option for each configuration that was trained.

    A run that something outside of it ended short of the target did not reach it, at the price of its time: a user may
    have given it up because it was hopeless. Its time to the target is only known to be longer.

    Args:
        runs: Runs with the same target on the same panel.
    """
    return [_option(setting, size, _CONFIDENCE) for setting, sizes in sizes_of(runs).items() for size in sizes]


def _option(setting: Setting, size: ScalingPoint, confidence: float) -> Option:
    """Return the option of one configuration, with intervals of some confidence."""
    runs, notes = size.runs, list[str]()
    time = cost = None
    try:
        time = time_to_target(runs, confidence)
    except ValueError as error:
        notes.append(str(error))
    try:
        cost = cost_per_target(runs, confidence)
    except ValueError as error:
        notes += [] if str(error) in notes or time is None else [f"no cost: {error}"]
    notes += [] if cost is None else _cost_notes(runs)
    if interrupted := sum(run.interrupted for run in runs):
        notes.append(f"{interrupted} of its runs were interrupted, and count as short of the target")
    if names := differing([settings(run.declared) for run in runs], without=_TOLD):
        notes.append(f"its runs differ in {', '.join(names)}")
    if len(runs) < FEWEST_RUNS:
        notes.append(f"not ranked: it needs at least {FEWEST_RUNS} runs, and has {len(runs)}")
    return Option(setting=setting, size=size, time=time, cost=cost, notes=tuple(notes))


def _cost_notes(runs: Sequence[ScaledRun]) -> list[str]:
    """Return why the costs of runs of one configuration may not be comparable with each other, or with others."""
    notes = []
    prices = sorted({run.summary.usd_per_hour for run in runs if run.summary.usd_per_hour is not None})
    if len(prices) > 1:
        listed = " and ".join(f"${price:g}" for price in (prices[0], prices[-1]))
        notes.append(f"its cost mixes {len(prices)} prices, {listed} per hour: name runs of one price")
    if longer := sum(run.reached and run.summary.status == Status.COMPLETED for run in runs):
        notes.append(f"its cost includes what {longer} of its runs trained on after the target")
    return notes


def chance_within(option: Option, limits: Limits) -> float:
    """Return the probability that a training stays within limits; that of the less likely one if there are two.

    A deadline is about one run, which reaches the target at most as often as the runs behind the option did. A budget
    is about the expected cost, failed runs included.

    Args:
        option: The option.
        limits: The limits.
    """
    chances = [1.0]
    if limits.deadline_s is not None:
        # The distribution of the time already contains the runs that missed the target: they would have taken longer.
        in_time = 0.0 if option.time is None else option.time.chance_below(limits.deadline_s, single=True)
        chances.append(min(in_time, option.reached / option.runs))
    if limits.budget_usd is not None:
        chances.append(0.0 if option.cost is None else option.cost.chance_below(limits.budget_usd, single=False))
    return min(chances)


def choose(options: Sequence[Option], goal: Goal, limits: Limits) -> Choice:
    """Choose the best option that is measured by enough runs.

    The best of several probably owes a part of its lead to chance. So the intervals of the choice have the confidence
    with which those of all options hold together (Bonferroni).

    Args:
        options: Options with the same target on the same panel.
        goal: What is to be small.
        limits: What the training may take.
    """
    ranked = [
        (found, each)
        for each in options
        if each.ranked and (found := goal.of(each)) is not None and chance_within(each, limits) >= SURE
    ]
    if not ranked:
        return Choice(goal=goal, option=None, among=0, chance_best=None)
    ranked.sort(key=lambda pair: pair[0].value)
    best, among = ranked[0][1], len(ranked)
    logs = np.array([math.log(found.value) if found.value else -math.inf for found, _ in ranked])
    spreads = np.array([found.deviation for found, _ in ranked])
    draws = logs + spreads * np.random.default_rng(0).standard_normal((_DRAWS, among))
    return Choice(
        goal=goal,
        option=best if among == 1 else _option(best.setting, best.size, 1 - (1 - _CONFIDENCE) / among),
        among=among,
        chance_best=float((draws.argmin(axis=1) == 0).mean()),
    )


def pareto_front(options: Sequence[Option]) -> list[Option]:
    """Return the ranked options that no other ranked option beats in time and cost, the fastest first."""

    def figures(option: Option) -> tuple[float, float] | None:
        return None if option.time is None or option.cost is None else (option.time.value, option.cost.value)

    return front_of([each for each in options if each.ranked], figures)
