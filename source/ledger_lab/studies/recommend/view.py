"""A recommendation as text for the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.text import Text

from ledger_lab.reports.columns import Shown
from ledger_lab.reports.terminal_table import table_lines
from ledger_lab.studies.recommend.recommendation import (
    SURE,
    Choice,
    Goal,
    Limits,
    Option,
    Recommendation,
    chance_within,
)
from ledger_lab.units import MISSING, duration, environments, percent, target_share, usd

_MINUTE_S = 60.0

OPTIONS: Mapping[str, Shown] = {
    "name": Shown("configuration", "", lambda of: of[1], align="left"),
    "runs": Shown("reached", "of its runs", lambda of: f"{of[0].reached} of {of[0].runs}"),
    "time": Shown("to target", "median (95 %)", lambda of: _time_words(of[0])),
    "cost": Shown("cost", "per target (95 %)", lambda of: _cost_words(of[0])),
    "front": Shown("Pareto", "", lambda of: "front" if of[2] else "", align="left"),
}
"""Columns of the options; a row is an option, its name, and whether no other option is both as fast and as cheap."""


def names_of(options: Sequence[Option]) -> list[str]:
    """Return the configurations of options, each in one line that tells it apart from the others."""
    told = [
        read
        for read in (
            lambda own: own.setting.hardware or "unknown hardware",
            lambda own: own.setting.device,
            lambda own: own.setting.physics,
        )
        if len({read(own) for own in options}) > 1
    ]
    names = []
    for own in options:
        several = f" on {own.size.machines} machines" if (own.size.machines or 1) > 1 else ""
        size = f"{environments(own.size.num_envs, own.size.processes)}{several}"
        parts = [own.setting.instance, *(read(own) for read in told), own.setting.library, size, own.setting.treatment]
        names.append(" · ".join(part for part in parts if part))
    return names


def render_recommendation(found: Recommendation, width: int) -> Group:
    """Draw a recommendation: the choice, and all options.

    Args:
        found: The recommendation.
        width: Columns of the terminal.
    """
    names = names_of(found.options)
    blocks = [Text(_head(found), style="bold")]
    for choice in found.choices:
        name = "" if choice.option is None else names[found.place_of(choice.option)]
        blocks += map(Text, choice_lines(choice, found.limits, name))
    rows = [(each, name, each in found.front) for each, name in zip(found.options, names, strict=True)]
    blocks += [Text(), *table_lines(OPTIONS, rows, width)]
    blocks += [Text(f"{name}: {'; '.join(each.notes)}", style="dim") for each, name, _ in rows if each.notes]
    return Group(*blocks, *(Text(line, style="yellow") for line in found.remarks))


def _head(found: Recommendation) -> str:
    """Return what is compared, and the limits."""
    same, limits = found.setting, found.limits
    parts = [f"task {same.task}", f"panel {same.panel} ({same.panel_id[:11]}…)", f"target {target_share(same.target)}"]
    parts += [f"deadline {duration(limits.deadline_s)}"] if limits.deadline_s is not None else []
    parts += [f"budget {usd(limits.budget_usd)}"] if limits.budget_usd is not None else []
    return " · ".join(parts)


def choice_lines(choice: Choice, limits: Limits, name: str) -> list[str]:
    """Return a choice in sentences.

    Args:
        choice: The choice.
        limits: The limits that it keeps.
        name: Name of the chosen configuration.
    """
    goal, what = f"least {choice.goal}", "time" if choice.goal is Goal.TIME else "cost"
    if choice.option is None or choice.chance_best is None:
        sure = f", and keeps the limits with a probability of {percent(SURE, 0)}" if limits.are_set else ""
        return [f"{goal}: no configuration has both enough runs and a known {what}{sure}"]
    best, which = choice.option, "it is the only one that can be chosen"
    if choice.among > 1:
        which = f"it is the best of {choice.among} with a probability of {percent(choice.chance_best, 0)}"
    lines = [f"{goal}: {name} ({_time_words(best)}, {_cost_words(best)}); {which}"]
    if choice.among > 1:
        lines.append(
            f"  the best of {choice.among} probably owes a part of its lead to chance, so its {what} may be too "
            f"low; these intervals hold for all {choice.among} together in 95 % of cases"
        )
    if limits.are_set:
        lines.append(f"  it keeps the limits with a probability of {percent(chance_within(best, limits), 0)}")
    return lines


def recommendation_json(found: Recommendation) -> dict[str, Any]:
    """Return a recommendation as plain JSON values; options are named by their place in the list.

    Args:
        found: The recommendation.
    """
    return {
        "task": found.setting.task,
        "panel": found.setting.panel,
        "panel_id": found.setting.panel_id,
        "target_success": found.setting.target,
        "limits": {**asdict(found.limits), "least_probability": SURE},
        "choices": [
            {
                "goal": str(choice.goal),
                "option": None if choice.option is None else found.place_of(choice.option),
                "among": choice.among,
                "chance_best": choice.chance_best,
                "together": None if choice.option is None else _figures_json(choice.option),
            }
            for choice in found.choices
        ],
        "pareto_front": [found.place_of(option) for option in found.front],
        "options": [
            {
                "setting": asdict(option.setting),
                "processes": option.size.processes,
                "machines": option.size.machines,
                "num_envs": option.size.num_envs,
                "run_ids": [run.run_id for run in option.size.runs],
                "reached": option.reached,
                "ranked": option.ranked,
                "notes": list(option.notes),
                **_figures_json(option),
                "chance_within_limits": chance_within(option, found.limits) if found.limits.are_set else None,
            }
            for option in found.options
        ],
        "remarks": list(found.remarks),
    }


def _figures_json(option: Option) -> dict[str, Any]:
    """Return the time and the cost of an option as plain JSON values; there are no intervals without enough runs."""
    return {
        goal: None
        if found is None
        else {
            "value": found.value,
            "interval": [end if math.isfinite(end) else None for end in found.interval] if option.ranked else None,
            "run_spread": found.run_spread,
        }
        for goal, found in (("time", option.time), ("cost", option.cost))
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
    low, high = option.cost.interval
    return f"{usd(option.cost.value)} [{usd(low)}, {usd(high)}]" if option.ranked else usd(option.cost.value)
