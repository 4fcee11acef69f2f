"""A recommendation as a figure: cost against time to the target of every configuration, with the Pareto front."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ledger_lab.reports.figures.drawing import INK, PAPER, SOFT, Drawing
from ledger_lab.reports.figures.look import head, hue, key_of_marks, logarithmic, mark, shown, time_unit
from ledger_lab.studies.recommend.estimates import Estimate
from ledger_lab.studies.recommend.options import Basis, Option
from ledger_lab.studies.recommend.recommendation import Recommendation
from ledger_lab.studies.recommend.view import names_of
from ledger_lab.units import quantity, target_share, usd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_NAMED = 16
"""With more configurations than these, only those on the Pareto front have their names in the figure."""
_LONGEST_NAME, _LINE = 160, 44
"""Longest name of a configuration, and of a line of it [characters]."""
_FARTHEST_LIMIT = 100.0
"""Largest ratio of a deadline or a budget to the figures beside which it is drawn."""


def draw_recommendation(found: Recommendation) -> Drawing | None:
    """Draw a recommendation.

    Args:
        found: The recommendation.

    Returns:
        The figure; ``None`` if no configuration has both a time and a cost of more than 0.
    """
    points = [*drawable(found)]
    if not points:
        return None
    names = {option: shown(name, _LONGEST_NAME) for option, name in names_of(found.options).items()}
    title = f"{shown(found.task)}: cost and time until {target_share(found.yardstick.target_success)} is proven"
    on_front = {id(option) for option in found.front}
    front = sorted((time.value, cost.value) for option, time, cost in points if id(option) in on_front)
    all_named = len(points) <= _MOST_NAMED

    def paint(canvas: Figure) -> None:
        axes = canvas.subplots()
        times = [end for each, time, _ in points for end in (time.value, *_ends(each, time))]
        costs = [end for each, _, cost in points for end in (cost.value, *_ends(each, cost))]
        seconds, symbol = time_unit(max(times))
        for place, (option, time, cost) in enumerate(points):
            kind = [*Basis].index(option.basis)
            at = (time.value / seconds, cost.value)
            if option.ranked:
                span = [min(end, max(times)) / seconds for end in time.interval]  # an endless one ends at the edge
                axes.plot(span, [cost.value] * 2, color=SOFT, linewidth=1.0, zorder=2)
                axes.plot([at[0]] * 2, cost.interval, color=SOFT, linewidth=1.0, zorder=2)
            axes.plot(
                *[[each] for each in at], linestyle="none", marker=mark(kind), markersize=7.0, zorder=4,
                markerfacecolor=hue(kind) if option.ranked else PAPER, markeredgecolor=hue(kind), gid=f"option-{place}",
            )  # fmt: skip
            if all_named or id(option) in on_front:
                name = "\n".join(textwrap.wrap(names[option.configuration], _LINE))
                axes.annotate(name, at, xytext=(7, 5), textcoords="offset points", fontsize=8, color=SOFT)
        if front:
            ends = zip(*((time_s / seconds, amount) for time_s, amount in front), strict=True)
            axes.plot(
                *ends, color=INK, linewidth=1.2, drawstyle="steps-post", zorder=3, gid="front",
                marker="o", markersize=13.0, markerfacecolor="none", markeredgecolor=INK,
            )  # fmt: skip
        if (deadline_s := found.limits.deadline_s) is not None and _is_near(deadline_s, times):
            axes.axvline(deadline_s / seconds, color=SOFT, linestyle=":", gid="deadline")
            times.append(deadline_s)
        if (budget_usd := found.limits.budget_usd) is not None and _is_near(budget_usd, costs):
            axes.axhline(budget_usd, color=SOFT, linestyle=":", gid="budget")
            costs.append(budget_usd)
        logarithmic(axes, "x", [each / seconds for each in times], f"median time to the target [{symbol}]")
        logarithmic(axes, "y", costs, "cost per target-reaching checkpoint [USD]", lambda value: f"${quantity(value)}")
        head(canvas, title, _legend(found), columns=3)

    best = "; ".join(
        f"{names[option.configuration]}: {time.value:.4g} s, {usd(cost.value)}"
        for option, time, cost in sorted(points, key=lambda point: point[1].value)
        if id(option) in on_front
    )
    return Drawing(
        name=f"recommend-{re.sub('[^a-z0-9]+', '-', found.task.lower()).strip('-') or 'task'}",
        title=title,
        description=f"Cost against time to the target of {len(points)} configurations, with 95 % intervals"
        + (f". On the Pareto front, the fastest first: {best}" if best else ""),
        paint=paint,
        size_in=(7.5, 4.8),
    )


def drawable(found: Recommendation) -> Iterator[tuple[Option, Estimate, Estimate]]:
    """Yield the options that have both a time and a cost that a logarithmic axis can show.

    Args:
        found: The recommendation.

    Yields:
        Each option, its time [s] and its cost [USD].
    """
    for option in found.options:
        if option.time is not None and option.cost is not None and option.cost.value > 0:
            yield option, option.time, option.cost


def _is_near(limit: float, figures: list[float]) -> bool:
    """Tell whether a limit is so near to the figures of an axis that it can be drawn beside them."""
    return min(figures) / _FARTHEST_LIMIT <= limit <= max(figures) * _FARTHEST_LIMIT


def _ends(option: Option, figure: Estimate) -> list[float]:
    """Return the ends of an interval for which an axis needs room."""
    return [end for end in figure.interval if option.ranked and math.isfinite(end)]


def _legend(found: Recommendation) -> list[object]:
    """Return the entries of the legend."""
    points = [option for option, *_ in drawable(found)]
    bases = [basis for basis in Basis if any(option.basis is basis for option in points)]
    entries = [
        key_of_marks(colour=hue([*Basis].index(basis)), shape=mark([*Basis].index(basis)), label=str(basis))
        for basis in bases
    ]
    if any(not option.ranked for option in points):
        entries.append(key_of_marks(colour=SOFT, shape="o", label="too few runs to be ranked", missed=True))
    if any(option is each for option in points for each in found.front):
        entries.append(key_of_marks(colour=INK, shape="o", label="Pareto front", missed=True, line="-"))
    if found.limits.deadline_s is not None or found.limits.budget_usd is not None:
        entries.append(key_of_marks(colour=SOFT, shape="", label="deadline, budget", line=":"))
    return entries
