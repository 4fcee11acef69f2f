"""Chooses among options: the least time or money, within limits; the Pareto front; what one more run is worth.

One more run is worth what it is expected to save because it may change the choice. This is the knowledge gradient
(Frazier, Powell & Dayanik 2008, SIAM J. Control Optim. 47:2410), here of the logarithms of times or costs, so that it
becomes a share of the time or the cost.
"""

from __future__ import annotations

import math
import statistics
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
"""Least probability at which one more run may still make a configuration the chosen one."""
LEAST_SAVED = 1e-3
"""Least share that one more run is expected to save for it to be named."""

_DRAWS = 10_000
_NORMAL = statistics.NormalDist()


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
class NextRun:
    """What one more run of a configuration is worth."""

    option: Option
    saves: float
    """Expected share of the time or the cost that a better choice saves after it."""
    changes: float
    """Probability that the choice changes."""


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
    next_run: NextRun | None
    """The most valuable next run; ``None`` if none is expected to save :data:`LEAST_SAVED`."""


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
        next_run=_most_valuable(allowed, possible, goal, limits),
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


def _most_valuable(allowed: Sequence[Option], possible: Sequence[Option], goal: Goal, limits: Limits) -> NextRun | None:
    """Return the next run that is expected to save most; without a choice, compared with the best estimate."""
    worths = [_next_run(each, allowed or possible, goal, limits) for each in possible]
    worth = max(worths, key=lambda each: each.saves, default=None)
    return None if worth is None or worth.saves < LEAST_SAVED else worth


def _next_run(option: Option, choosable: Sequence[Option], goal: Goal, limits: Limits) -> NextRun:
    """Return what one more run of an option is worth, by the distance to the best of the others.

    An option that may not be chosen yet may be far better than the choice. Whether it may be chosen after the run is
    then what matters: for the limits, that is calculated; of runs, it is taken to have enough.
    """
    own = _estimate(option, goal)
    others = [_estimate(each, goal).value for each in choosable if each is not option]
    if not others:
        return NextRun(option=option, saves=0.0, changes=0.0)
    rival = min(others)
    ahead = 0.0 if rival == own.value else _log(rival) - _log(own.value)  # both may be free of charge
    if option in choosable:  # it may become worse, or better
        ahead = -abs(ahead)
    kept = 1.0 if chance_within(option, limits) >= SURE else _chance_kept_then(option, limits)
    moves = _moves(own)
    if moves == 0 or math.isinf(ahead):
        gain, chance = max(ahead, 0.0), float(ahead > 0)
    else:
        chance = _NORMAL.cdf(ahead / moves)
        gain = max(ahead * chance + moves * _NORMAL.pdf(ahead / moves), 0.0)
    return NextRun(option=option, saves=-kept * math.expm1(-gain), changes=kept * chance)


def _reached(option: Option) -> float:
    """Return the share of the runs behind an option that reached the target."""
    return option.reached / len(option.run_ids) if option.run_ids else 0.0


def _moves(figure: Estimate) -> float:
    """Return the standard deviation by which one more run is expected to move the logarithm of an estimate."""
    variance = figure.deviation**2 + figure.run_spread**2
    return figure.deviation**2 / math.sqrt(variance) if variance else 0.0


def _chance_kept_then(option: Option, limits: Limits) -> float:
    """Return the probability that, after one more run, an option keeps the limits with enough certainty."""
    chances = [1.0]
    for limit, figure, single, share in (
        (limits.deadline_s, option.time, True, _reached(option)),
        (limits.budget_usd, option.cost, False, 1.0),
    ):
        if limit is not None and share < SURE:
            return 0.0
        if limit is None or figure is None or not figure.value:
            continue
        moves = _moves(figure)
        left = math.sqrt(max(figure.deviation**2 - moves**2, 0.0))
        spread = math.hypot(left, figure.run_spread) if single else left
        room = math.log(limit / figure.value) - _NORMAL.inv_cdf(SURE) * spread
        chances.append(_NORMAL.cdf(room / moves) if moves else float(room >= 0))
    return min(chances)


def _log(value: float) -> float:
    """Return a logarithm; minus infinity for 0."""
    return math.log(value) if value else -math.inf
