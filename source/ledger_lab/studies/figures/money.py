"""Dollars against time to the target: which machine, and how many processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledger_lab.ledger.costs import pareto_front
from ledger_lab.reports.figures.drawing import INK, SOFT, Drawing
from ledger_lab.reports.figures.look import (
    head,
    hue,
    is_crowded,
    key_of_marks,
    logarithmic,
    mark,
    run_mark,
    shown,
    time_unit,
)
from ledger_lab.studies.figures.targets import MISSED
from ledger_lab.units import quantity, usd

if TYPE_CHECKING:
    from matplotlib import figure
    from matplotlib.axes import Axes

_MOST_NAMED = 16
"""With more sizes than these, only those on the Pareto front have their names in the figure."""


@dataclass(frozen=True, kw_only=True)
class PricedRun:
    """What one run needed to the target; without the target, until it ended."""

    run_id: str
    time_s: float
    usd: float
    reached: bool


@dataclass(frozen=True, kw_only=True)
class PricedSize:
    """All runs of one size with a price."""

    series: str
    """What its sizes have in common, such as library and instance."""
    label: str
    """The size."""
    runs: tuple[PricedRun, ...]
    median_time_s: float | None
    """Over all runs; ``None`` if half of them or more missed the target."""
    median_usd: float | None


def medians(size: PricedSize) -> tuple[float, float] | None:
    """Return the median time [s] and cost [USD] of a size; ``None`` if one of them is unknown.

    Args:
        size: The size.
    """
    if size.median_time_s is None or size.median_usd is None:
        return None
    return size.median_time_s, size.median_usd


def draw_money(name: str, title: str, sizes: Sequence[PricedSize]) -> Drawing:
    """Draw the cost against the time to the target, with the Pareto front of the medians.

    Args:
        name: Name of the files.
        title: Title of the figure.
        sizes: Sizes with the same target; at least one.
    """
    series = list(dict.fromkeys(each.series for each in sizes))
    runs = [run for each in sizes for run in each.runs]
    front = pareto_front(sizes, medians)
    missed = any(not run.reached for run in runs)

    def paint(canvas: figure.Figure) -> None:
        axes = canvas.subplots()
        seconds, symbol = time_unit(max(run.time_s for run in runs))
        crowded = is_crowded([place for place, each in enumerate(sizes) for _ in each.runs])
        for number, each in enumerate(sorted(sizes, key=lambda size: (size.median_usd or 0.0, size.label))):
            place = series.index(each.series)
            for run in each.runs:
                run_mark(
                    axes, run.time_s / seconds, run.usd, run.run_id,
                    colour=hue(place), shape=mark(place), missed=not run.reached,
                    crowded=crowded, arrow=(11.0, 11.0),
                )  # fmt: skip
            named = len(sizes) <= _MOST_NAMED or each in front
            _paint_median(axes, each, seconds, hue(place), shown(each.label, 24) if named else "", number % 2 == 1)
        corners = [(t / seconds, c) for each in front if (t := each.median_time_s) and (c := each.median_usd)]
        axes.step(
            [x for x, _ in corners], [y for _, y in corners], where="post", color=INK, linewidth=1.1, zorder=2,
            gid="front",
        )  # fmt: skip
        logarithmic(
            axes, "x", [run.time_s / seconds for run in runs], f"wall-clock time to the target [{symbol}]",
            lambda value: f"{value:.3g}",
        )  # fmt: skip
        logarithmic(axes, "y", [run.usd for run in runs], "cost to the target [USD]", _dollars)
        handles = [
            key_of_marks(colour=hue(place), shape=mark(place), label=shown(each)) for place, each in enumerate(series)
        ]
        if missed:
            handles.append(key_of_marks(colour=SOFT, shape="o", label=f"{MISSED}, in time and cost", missed=True))
        if front:
            handles.append(key_of_marks(colour=INK, shape="", label="Pareto front of the medians (+)", line="-"))
        head(canvas, title, handles, columns=2)

    best = _size_words(front)
    return Drawing(
        name=name,
        title=title,
        description=f"Cost against time to the target of {len(runs)} runs of {len(sizes)} sizes"
        + ("; runs that did not reach it are hollow" if missed else "")
        + (f". On the Pareto front of the medians, the fastest first: {best}" if front else ""),
        paint=paint,
        size_in=(7.5, 4.4 + 0.1 * len(series)),  # the legend has two columns
    )


def _size_words(front: Sequence[PricedSize]) -> str:
    """Return the sizes of a front with their medians, in words."""
    return "; ".join(
        f"{shown(each.series)}, {shown(each.label)}: {each.median_time_s:.4g} s, {usd(each.median_usd)}"
        for each in front
    )


def _dollars(amount: float) -> str:
    """Return the amount of a tick, with more digits than an amount in a text."""
    return f"${quantity(amount)}"


def _paint_median(axes: Axes, size: PricedSize, seconds: float, colour: str, name: str, below: bool) -> None:
    """Paint the medians of a size, with a name beside them."""
    if size.median_time_s is None or size.median_usd is None:
        return
    at = (size.median_time_s / seconds, size.median_usd)
    axes.plot(*[[each] for each in at], linestyle="none", marker="+", markersize=11, color=INK, zorder=5)
    # Above and to the left, or below and to the right: runs of a size scatter along the other diagonal.
    axes.annotate(
        name, at, xytext=(6, -5) if below else (-6, 5), textcoords="offset points", ha="left" if below else "right",
        va="top" if below else "bottom", fontsize=8, color=colour, zorder=3,
    )  # fmt: skip
