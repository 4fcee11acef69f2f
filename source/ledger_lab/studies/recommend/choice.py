"""Chooses among options: the least time or money, within limits; and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ledger_lab.ledger import costs
from ledger_lab.studies.recommend.estimates import Estimate
from ledger_lab.studies.recommend.options import Option

SURE = 0.9
"""Least probability of keeping a deadline or a budget for a configuration to be chosen."""
POSSIBLE = 0.1
"""Least probability of keeping the limits at which a configuration with few runs is named."""
_DRAWS = 10_000


class Goal(StrEnum):
    """What is to be as small as possible."""

    TIME = "time"
    MONEY = "money"


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


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The recommended option for a goal."""

    goal: Goal
    option: Option | None
    """``None`` if no option has enough runs, the figure, and a large enough probability of keeping the limits."""
    among: int
    """How many options may be chosen."""
    together: Option | None = None
    """:attr:`option` with intervals that hold for all that may be chosen together, so that they hold for the best of
    them, too. ``None`` if there is no choice among several."""
    chance_best: float | None
    """Probability that it is really the best of those that may be chosen; ``None`` without one."""
    unranked: Option | None
    """The option with the smallest figure, if that is smaller than that of the choice, and only has too few runs to be
    ranked."""


def figure_of(option: Option, goal: Goal) -> Estimate | None:
    """Return the time or the cost of an option.

    Args:
        option: The option.
        goal: Which of the two.
    """
    return option.time if goal is Goal.TIME else option.cost


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
        chances.append(min(in_time, _reached(option)))
    if limits.budget_usd is not None:
        chances.append(0.0 if option.cost is None else option.cost.chance_below(limits.budget_usd, single=False))
    return min(chances)


def choose(options: Sequence[Option], goal: Goal, limits: Limits) -> Choice:
    """Choose the best option that is measured or predicted from enough runs.

    Args:
        options: Options with the same target on the same panel.
        goal: What is to be small.
        limits: What the training may take.
    """
    known = [each for each in options if figure_of(each, goal) is not None]
    allowed = [each for each in known if each.ranked and chance_within(each, limits) >= SURE]
    possible = [each for each in known if each in allowed or chance_within(each, limits) >= POSSIBLE]
    best = min(allowed, key=lambda each: _estimate(each, goal).value, default=None)
    return Choice(
        goal=goal,
        option=best,
        unranked=_better_unranked(best, possible, goal),
        among=len(allowed),
        chance_best=None if best is None else _chance_best(best, allowed, goal),
    )


def _better_unranked(best: Option | None, options: Sequence[Option], goal: Goal) -> Option | None:
    """Return the option with the smallest figure, if it is better than the choice and only lacks runs to be ranked."""
    least = min(options, key=lambda each: _estimate(each, goal).value, default=None)
    if best is None or least is None or least.ranked:
        return None
    return least if _estimate(least, goal).value < _estimate(best, goal).value else None


def pareto_front(options: Sequence[Option]) -> list[Option]:
    """Return the ranked options that no other ranked option beats in time and cost, the fastest first.

    Args:
        options: Options with the same target on the same panel.
    """
    return costs.pareto_front([each for each in options if each.ranked], _time_and_cost)


def _time_and_cost(option: Option) -> tuple[float, float] | None:
    """Return the time [s] and the cost [USD] of an option; ``None`` if one of them is unknown."""
    return None if option.time is None or option.cost is None else (option.time.value, option.cost.value)


def _estimate(option: Option, goal: Goal) -> Estimate:
    """Return a figure that is known."""
    found = figure_of(option, goal)
    assert found is not None
    return found


def _chance_best(best: Option, options: Sequence[Option], goal: Goal) -> float:
    """Return the probability that an option has the smallest figure, if all are independent."""
    figures = [_estimate(each, goal) for each in (best, *(each for each in options if each is not best))]
    logs = np.array([_log(each.value) for each in figures])
    spreads = np.array([each.deviation for each in figures])
    draws = logs + spreads * np.random.default_rng(0).standard_normal((_DRAWS, len(figures)))
    return float((draws.argmin(axis=1) == 0).mean())


def _reached(option: Option) -> float:
    """Return the share of the runs behind an option that reached the target."""
    return option.reached / len(option.run_ids) if option.run_ids else 0.0


def _log(value: float) -> float:
    """Return a logarithm; minus infinity for 0."""
    return math.log(value) if value else -math.inf
