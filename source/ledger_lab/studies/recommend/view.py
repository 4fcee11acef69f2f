"""A recommendation as text for the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from ledger_lab.reports.columns import Shown, figure, summarize
from ledger_lab.reports.terminal_table import table_lines
from ledger_lab.studies.recommend.choice import POSSIBLE, SURE, Choice, Goal, Limits, chance_within
from ledger_lab.studies.recommend.options import Configuration, Option
from ledger_lab.studies.recommend.recommendation import Recommendation
from ledger_lab.units import MISSING, duration, environments, percent, target_share, usd

_MINUTE_S = 60.0


class _Facts:
    """An option, its name, and the Pareto front."""

    def __init__(self, option: Option, name: str, front: Sequence[Option]) -> None:
        self.option, self.name, self.on_front = option, name, option in front


def _option[Value](read: Callable[[_Facts], Value], shown: Shown | None = None) -> Value:
    return figure(read, shown)


@dataclass(frozen=True, kw_only=True)
class OptionRow:
    """A configuration with its figures."""

    name: str = _option(lambda of: of.name, Shown("configuration", "", lambda row: row.name, priority=0, align="left"))
    """Machine, library, processes × environments of each process, and what else differs between the options."""
    basis: str = _option(
        lambda of: str(of.option.basis), Shown("basis", "", lambda row: row.basis, priority=1, align="left")
    )
    """``measured`` or ``predicted``."""
    runs: str = _option(
        lambda of: f"{of.option.reached} of {len(of.option.run_ids)}",
        Shown("reached", "of the runs behind it", lambda row: row.runs, priority=2),
    )
    """Runs behind the figures that reached the target, and all of them."""
    time: str = _option(
        lambda of: _time_words(of.option), Shown("to target", "median (95 %)", lambda row: row.time, priority=3)
    )
    """Median wall-clock time to the target, with its 95 % interval."""
    cost: str = _option(
        lambda of: _cost_words(of.option), Shown("cost", "per target (95 %)", lambda row: row.cost, priority=4)
    )
    """Cost per target-reaching checkpoint, with its 95 % interval."""
    front: str = _option(
        lambda of: "front" if of.on_front else "",
        Shown("Pareto", "", lambda row: row.front, priority=5, align="left"),
    )
    """Whether no other ranked configuration is both as fast and as cheap."""


def names_of(options: Sequence[Option]) -> dict[Configuration, str]:
    """Return the configurations of options, each in one line that tells it apart from the others.

    Args:
        options: The options.
    """
    configurations = [option.configuration for option in options]
    told = [
        read
        for read in (lambda own: own.hardware or "unknown hardware", lambda own: own.device, lambda own: own.physics)
        if len({read(own) for own in configurations}) > 1
    ]
    names = {}
    for own in configurations:
        machines = f" on {own.machines} machines" if (own.machines or 1) > 1 else ""
        size = environments(own.num_envs, own.processes)
        parts = [own.instance, *(read(own) for read in told), own.rl_library, f"{size}{machines}", own.treatment]
        names[own] = " · ".join(part for part in parts if part)
    return names


def render_recommendation(found: Recommendation, width: int) -> Group:
    """Draw a recommendation: the choice, and all options.

    Args:
        found: The recommendation.
        width: Columns of the terminal.
    """
    ruler, names = found.yardstick, names_of(found.options)
    head = f"task {found.task} · panel {ruler.panel} ({ruler.panel_id[:11]}…) · target "
    blocks = [Text(head + target_share(ruler.target_success) + _limit_words(found.limits), style="bold")]
    for choice in found.choices:
        blocks += [Text(line) for line in choice_lines(choice, found.limits, names)]
    rows = [summarize(OptionRow, _Facts(each, names[each.configuration], found.front)) for each in found.options]
    return Group(*blocks, Text(), *table_lines(OptionRow, rows, width), *render_notes(found))


def render_notes(found: Recommendation) -> list[Text]:
    """Return what a reader must know about the figures of a recommendation, one line each.

    Args:
        found: The recommendation.
    """
    names = names_of(found.options)
    notes = [
        f"{names[option.configuration]} ({option.basis}): {'; '.join(option.notes)}"
        for option in found.options
        if option.notes
    ]
    left_out = [
        f"left out: {count} {what}"
        for count, what in (
            (found.running, "that still run"),
            (found.repeated, "that made the same trainings as others (their cost counts)"),
            (found.never_began, "that were declared, and never began"),
        )
        if count
    ]
    warnings = [*left_out, *found.remarks]
    return [*(Text(line, style="dim") for line in notes), *(Text(line, style="yellow") for line in warnings)]


def choice_lines(choice: Choice, limits: Limits, names: Mapping[Configuration, str]) -> list[str]:
    """Return a choice in sentences.

    Args:
        choice: The choice.
        limits: The limits that it keeps.
        names: Names of the configurations.
    """
    goal = f"least {choice.goal}"
    if choice.option is None or choice.chance_best is None:
        why = "has both enough runs and a known " + ("time" if choice.goal is Goal.TIME else "cost")
        limited = limits.are_set
        sure = f", and keeps the limits with a probability of {percent(SURE, 0)}" if limited else ""
        return [f"{goal}: no configuration {why}{sure}"]
    best, shown = choice.option, choice.together or choice.option
    figures = f"{_time_words(shown)}, {_cost_words(shown)}, {best.basis}"
    sure = f"it is the best of {choice.among} with a probability of {percent(choice.chance_best, 0)}"
    which = "it is the only one that can be chosen" if choice.among == 1 else sure
    lines = [f"{goal}: {names[best.configuration]} ({figures}); {which}"]
    if choice.together is not None:
        what = "time" if choice.goal is Goal.TIME else "cost"
        lines.append(
            f"  the best of {choice.among} probably owes a part of its lead to chance, so its {what} may be too "
            f"low; these intervals hold for all {choice.among} together in 95 % of cases"
        )
    if limits.are_set:
        lines.append(f"  it keeps the limits with a probability of {percent(chance_within(best, limits), 0)}")
    if (better := choice.unranked) is not None:
        lines.append(
            f"  better by its few runs, which do not suffice to rank it: {names[better.configuration]} "
            f"({_time_words(better)}, {_cost_words(better)})"
        )
    return lines


def recommendation_json(found: Recommendation) -> dict[str, Any]:
    """Return a recommendation as plain JSON values; options are named by their place in the list.

    Args:
        found: The recommendation.
    """
    places = {id(option): place for place, option in enumerate(found.options)}
    return {
        "task": found.task,
        "yardstick": asdict(found.yardstick),
        "limits": {**asdict(found.limits), "least_probability": SURE, "possible_from": POSSIBLE},
        "choices": [
            {
                "goal": str(choice.goal),
                "option": None if choice.option is None else places[id(choice.option)],
                "among": choice.among,
                "chance_best": choice.chance_best,
                "together": None if choice.together is None else _figures_json(choice.together),
                "unranked": None if choice.unranked is None else places[id(choice.unranked)],
            }
            for choice in found.choices
        ],
        "pareto_front": [places[id(option)] for option in found.front],
        "options": [
            {
                **asdict(option),
                "basis": str(option.basis),
                "run_ids": list(option.run_ids),
                "notes": list(option.notes),
                **_figures_json(option),
                "chance_within_limits": chance_within(option, found.limits) if found.limits.are_set else None,
            }
            for option in found.options
        ],
        "running": found.running,
        "repeated": found.repeated,
        "never_began": found.never_began,
        "remarks": list(found.remarks),
    }


def _figures_json(option: Option) -> dict[str, Any]:
    """Return the time and the cost of an option as plain JSON values; there are no intervals without enough runs."""
    return {
        name: None
        if found is None
        else {
            "value": found.value,
            "interval": [end if math.isfinite(end) else None for end in found.interval] if option.ranked else None,
            "run_spread": found.run_spread,
        }
        for name, found in (("time", option.time), ("cost", option.cost))
    }


def _time_words(option: Option) -> str:
    """Return a time, with its interval if there are enough runs; seconds if it is short."""
    if (found := option.time) is None:
        return MISSING
    low, high = found.interval if option.ranked else (found.value, found.value)
    short = (high if math.isfinite(high) else found.value) < _MINUTE_S
    value, start, end = (
        "∞" if each == math.inf else f"{each:.3g} s" if short else duration(each) for each in (found.value, low, high)
    )
    close = ")" if high == math.inf else "]"
    return f"{value} [{start.removesuffix(' s')}, {end}{close}" if option.ranked else value


def _cost_words(option: Option) -> str:
    """Return a cost, with its interval if there are enough runs."""
    if option.cost is None:
        return MISSING
    if not option.ranked:
        return usd(option.cost.value)
    low, high = option.cost.interval
    return f"{usd(option.cost.value)} [{usd(low)}, {usd(high)}]"


def _limit_words(limits: Limits) -> str:
    """Return the limits in words."""
    deadline = "" if limits.deadline_s is None else f" · deadline {duration(limits.deadline_s)}"
    return deadline + ("" if limits.budget_usd is None else f" · budget {usd(limits.budget_usd)}")
