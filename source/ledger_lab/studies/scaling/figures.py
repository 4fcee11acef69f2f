"""The figures of the scaling studies of a ledger, as files and as a section of the page.

Each mark is a run. A hollow mark with an arrow is a run that missed the target: its figure is larger than shown.
"""

from __future__ import annotations

import base64
import re
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ledger_lab.ledger import Run
from ledger_lab.ledger.costs.model import pareto_front
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.reports.page.model import Picture, ScalingPart
from ledger_lab.reports.summary import RunSummary
from ledger_lab.studies.scaling.drawing import INK, SOFT, Drawing, can_draw
from ledger_lab.studies.scaling.laws import Kind, RateFit, Refusal
from ledger_lab.studies.scaling.look import (
    head,
    hue,
    joined,
    key_of_marks,
    logarithmic,
    mark,
    run_mark,
    shown,
    side_by_side,
    size_axis,
    time_unit,
)
from ledger_lab.studies.scaling.points import (
    ScaledRun,
    ScalingPoint,
    ScalingStudy,
    Setting,
    find_studies,
    point_of,
    scaled_runs,
)
from ledger_lab.studies.scaling.view import cautions, figure_words, law_lines, price_line, setting_line
from ledger_lab.units import quantity, target_share, usd

if TYPE_CHECKING:
    from matplotlib import figure
    from matplotlib.axes import Axes

MOST_PICTURES = 40
"""Pictures on a page at most. Each takes a fraction of a second to draw."""
_LONGEST_NAME = 32
"""Characters of a task or a library in the name of a file."""
_MOST_NAMED = 16
"""With more sizes than these, only those on the Pareto front have their names in a figure of the cost."""
_LAW_HUE, _LAW_POINTS = 3, 60
_CSS_PIXELS_PER_INCH = 96
_MISSED = "target not reached: larger than shown"
"""Words for a hollow mark."""


def scaling_part(runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None) -> ScalingPart:
    """Return the page's section about scaling: the same pictures as the files, embedded as images.

    Args:
        runs: The runs of the page.
        summaries: Their summaries, in the same order.
        price: Price that replaces the declared prices.
    """
    drawings = draw_ledger(runs, summaries, price)
    if not can_draw():
        return ScalingPart(missing_package=bool(drawings))
    pictures = tuple(map(_picture, drawings[:MOST_PICTURES]))
    return ScalingPart(pictures=pictures, left_out=len(drawings[MOST_PICTURES:]))


def _picture(drawing: Drawing) -> Picture:
    """Paint a figure for a page."""
    width, height = (round(_CSS_PIXELS_PER_INCH * inches) for inches in drawing.size_in)
    address = f"data:image/svg+xml;base64,{base64.b64encode(drawing.render('svg')).decode()}"
    return Picture(
        title=drawing.title,
        description=drawing.description,
        address=address,
        width=width,
        height=height,
        notes=drawing.notes,
    )


def draw_ledger(runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None = None) -> list[Drawing]:
    """Draw the scaling studies of a ledger: of the targets that were trained for with several sizes.

    Args:
        runs: The runs.
        summaries: Their summaries, in the same order.
        price: Price that replaces the declared prices; the summaries must have been made with it.
    """
    sizes: dict[Hashable, set[tuple[int, int]]] = {}
    for each in summaries:
        sizes.setdefault((each.measured_by, each.physics), set()).add((each.world_size, each.num_envs))
    chosen = [
        (run, each) for run, each in zip(runs, summaries, strict=True) if len(sizes[each.measured_by, each.physics]) > 1
    ]
    return draw_studies(find_studies(scaled_runs([run for run, _ in chosen], [each for _, each in chosen], price)))


def draw_studies(studies: Sequence[ScalingStudy]) -> list[Drawing]:
    """Draw everything about the runs of a ledger that differ in their size.

    Args:
        studies: The studies of the ledger, as :func:`~ledger_lab.studies.scaling.points.find_studies` returns them.

    Returns:
        The figures of each target: first the cost against the time, then those of each setting. Targets and settings
        without several sizes are left out. Each figure has another name.
    """
    by_target: dict[Hashable, dict[Setting, list[ScalingStudy]]] = {}
    for study in studies:
        target = (study.setting.measured_by, study.setting.physics)
        by_target.setdefault(target, {}).setdefault(study.setting, []).append(study)
    drawings: list[Drawing] = []
    for settings in by_target.values():
        scaled = [own for own in settings.values() if len(_points(own)) > 1]
        if scaled:
            drawings += _draw_target(settings)
            drawings += [_draw_study(study) for own in scaled for study in own if _can_draw_study(study)]
    seen = Counter[str]()
    for place, drawing in enumerate(drawings):  # so that no file replaces another
        seen[drawing.name] += 1
        if (count := seen[drawing.name]) > 1:
            drawings[place] = replace(drawing, name=f"{drawing.name}-{count}")
    return drawings


def _can_draw_study(study: ScalingStudy) -> bool:
    """Tell whether a study has several numbers of processes, and a run that took time."""
    return study.kind is not Kind.OTHER and any(run.identity.time_s > 0 for run in study.runs)


def _points(studies: Iterable[ScalingStudy]) -> list[ScalingPoint]:
    """Return the sizes of studies of one setting, each once: a size can be in a strong and in a weak study."""
    found = {
        (point.processes, point.num_envs, point.machines or 0): point for study in studies for point in study.points
    }
    return [found[key] for key in sorted(found)]


def _slug(text: str) -> str:
    """Return a text as a part of the name of a file."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text)[:_LONGEST_NAME].strip("-").lower() or "unnamed"


def _paint_runs(axes: Axes, runs: Sequence[ScaledRun], read: Callable[[ScaledRun], tuple[float, float]]) -> None:
    """Paint the marks of runs, side by side where they share a size.

    Args:
        axes: Where.
        runs: The runs; at least one.
        read: Takes a run, and returns its size and its figure.
    """
    sizes = [read(run)[0] for run in runs]
    for run, x in zip(runs, side_by_side(sizes), strict=True):
        run_mark(
            axes, x, read(run)[1], run.run_id,
            colour=hue(0), shape=mark(0), missed=not run.reached,
        )  # fmt: skip


def _paint_law(axes: Axes, law: RateFit) -> None:
    """Paint a fitted law with its band, between the measured sizes."""
    places = sorted({round(each) for each in np.geomspace(law.sizes[0], law.sizes[-1], _LAW_POINTS)})
    found = [law.at(place) for place in places]
    axes.plot(places, [each.value for each in found], color=hue(_LAW_HUE), zorder=3, gid="law")
    intervals = [each.interval for each in found if each.interval is not None]
    if intervals:  # all have one, or none
        lows, highs = zip(*intervals, strict=True)
        axes.fill_between(places, lows, highs, color=hue(_LAW_HUE), alpha=0.16, linewidth=0, zorder=1, gid="band")


def _draw_study(study: ScalingStudy) -> Drawing:
    """Draw the total rate and the time to the target of runs with several numbers of processes."""
    setting, sizes = study.setting, sorted({point.processes for point in study.points})
    places = (setting.task, setting.library, setting.hardware or setting.instance, setting.treatment)
    title = " · ".join([*(shown(each) for each in places if each), study.words])
    notes, law, words = [setting_line(setting), *cautions(study)], None, list[str]()
    if isinstance(study.rate_law, Refusal):
        notes += law_lines(study.rate_law)
    elif not study.rate_law.fits:
        misfit = f"{study.rate_law.law}'s law does not fit the runs (p = {study.rate_law.misfit_p_value:.2g})"
        notes.append(f"not drawn: {misfit}")
    else:
        law = study.rate_law
        words = [f"{law.law}'s law", f"contention {figure_words(law.contention, '{:.2g}'.format)}"]

    def paint(canvas: figure.Figure) -> None:
        left, right = canvas.subplots(1, 2)
        _paint_rates(left, study.runs, law, sizes)
        _paint_times(right, study, sizes)
        handles = [key_of_marks(colour=hue(0), shape=mark(0), label="run")]
        if not all(run.reached for run in study.runs):
            handles.append(key_of_marks(colour=hue(0), shape=mark(0), label=_MISSED, missed=True))
        handles.append(key_of_marks(colour=SOFT, shape="", label="ideal: N times the rate, as many steps", line=":"))
        if words:
            handles.append(key_of_marks(colour=hue(_LAW_HUE), shape="", label="\n".join(words), line="-"))
        head(canvas, title, handles)

    return Drawing(
        name=f"{_slug(setting.task)}-{_slug(setting.library)}-{study.kind}",
        title=title,
        notes=tuple(notes),
        description=f"Environment steps per second, and wall-clock time to the target, of {len(study.runs)} runs with "
        f"{joined(sizes)} processes, with the ideal lines" + (f" and {', '.join(words)}" if words else ""),
        paint=paint,
    )


def _paint_rates(axes: Axes, runs: Sequence[ScaledRun], law: RateFit | None, sizes: Sequence[int]) -> None:
    """Paint the total rate of each run that has one, and the law."""
    measured = {run.run_id: rate for run in runs if (rate := run.summary.env_steps_per_s)}
    runs = [run for run in runs if run.run_id in measured]
    rates: dict[int, list[float]] = {}
    for run in runs:
        rates.setdefault(run.summary.world_size, []).append(measured[run.run_id])
    if runs:
        _paint_runs(axes, runs, lambda run: (run.summary.world_size, measured[run.run_id]))
        first = min(rates)
        rate = statistics.median(rates[first])
        ends = [first, sizes[-1]], [rate, rate * sizes[-1] / first]
        axes.plot(*ends, color=SOFT, linestyle=":", zorder=1, gid="ideal-rate")
    if law is not None:
        _paint_law(axes, law)
    size_axis(axes, sizes, "processes N")
    known = [rate for own in rates.values() for rate in own]
    logarithmic(axes, "y", known, "environment steps per second of all processes [1/s]")
    axes.set_title("Rate")


def _paint_times(axes: Axes, study: ScalingStudy, sizes: Sequence[int]) -> None:
    """Paint the time to the target of each run, and the median of each size."""
    seconds, symbol = time_unit(max(run.identity.time_s for run in study.runs))
    _paint_runs(axes, study.runs, lambda run: (run.summary.world_size, run.identity.time_s / seconds))
    medians = [
        (point.processes, point.time_to_target_s / seconds)
        for point in study.points
        if point.time_to_target_s is not None
    ]
    axes.plot([x for x, _ in medians], [y for _, y in medians], color=hue(0), alpha=0.45, zorder=2)
    if medians and medians[0][0] == sizes[0]:
        first, time = medians[0]
        ends = [first, sizes[-1]], [time, time * first / sizes[-1]]
        axes.plot(*ends, color=SOFT, linestyle=":", zorder=1, gid="ideal-time")
    size_axis(axes, sizes, "processes N")
    times = [run.identity.time_s / seconds for run in study.runs]
    logarithmic(axes, "y", times, f"wall-clock time to the target [{symbol}]", lambda value: f"{value:.3g}")
    axes.set_title("Time to the target")


def _spent_usd(run: ScaledRun) -> float | None:
    """Return what a run cost to the target; without the target, until it ended [USD]."""
    return run.cost_to_target_usd if run.reached else run.summary.billable_usd


def _medians(priced: tuple[str, ScalingPoint]) -> tuple[float, float] | None:
    """Return the median time [s] and cost [USD] of a size to the target; ``None`` if half of the runs missed it."""
    time_s, cost_usd = priced[1].time_to_target_s, priced[1].cost_to_target_usd
    return None if time_s is None or cost_usd is None else (time_s, cost_usd)


def _draw_target(settings: Mapping[Setting, Sequence[ScalingStudy]]) -> list[Drawing]:
    """Draw the cost against the time to the target of all settings with this target, if two sizes have a price."""
    points = [(setting, point) for setting, own in settings.items() for point in _points(own)]
    sizes: list[tuple[str, ScalingPoint]] = []
    spent_usd = {run.run_id: spent for _, point in points for run in point.runs if (spent := _spent_usd(run))}
    for setting, point in points:
        if priced := [run for run in point.runs if run.run_id in spent_usd and run.identity.time_s > 0]:
            words = (setting.library, setting.instance, setting.treatment)
            sizes.append((" · ".join(shown(each) for each in words if each), point_of(priced)))
    if len(sizes) < 2:
        return []
    first = next(iter(settings))
    title = f"{shown(first.task)} · target {target_share(first.target)} · panel {shown(first.panel)}: cost against time"
    unpriced = sum(len(point.runs) for _, point in points) - sum(len(size.runs) for _, size in sizes)
    notes = [f"not drawn: {unpriced} of the runs, because they have no price"] if unpriced else []
    for setting, own in settings.items():
        if (line := price_line([run for point in _points(own) for run in point.runs])) is not None:
            notes.append(f"{setting_line(setting)}: {line}")
    series = list(dict.fromkeys(name for name, _ in sizes))
    runs = [run for _, size in sizes for run in size.runs]
    front = pareto_front(sizes, _medians)
    corners = [medians for each in front if (medians := _medians(each)) is not None]

    def paint(canvas: figure.Figure) -> None:
        axes = canvas.subplots()
        seconds, symbol = time_unit(max(run.identity.time_s for run in runs))
        for number, each in enumerate(sorted(sizes, key=lambda size: (_medians(size) or (0.0, 0.0))[1])):
            place = series.index(each[0])
            for run in each[1].runs:
                run_mark(
                    axes, run.identity.time_s / seconds, spent_usd[run.run_id], run.run_id, colour=hue(place),
                    shape=mark(place), missed=not run.reached, arrow=(11.0, 11.0),
                )  # fmt: skip
            if (medians := _medians(each)) is not None:
                label = shown(each[1].size, 24) if len(sizes) <= _MOST_NAMED or each in front else ""
                _paint_median(axes, medians[0] / seconds, medians[1], hue(place), label, number % 2 == 1)
        axes.step(
            [time_s / seconds for time_s, _ in corners], [cost for _, cost in corners], where="post", color=INK,
            linewidth=1.1, zorder=2, gid="front",
        )  # fmt: skip
        times = [run.identity.time_s / seconds for run in runs]
        logarithmic(axes, "x", times, f"wall-clock time to the target [{symbol}]", lambda value: f"{value:.3g}")
        costs_usd = [spent_usd[run.run_id] for run in runs]
        logarithmic(axes, "y", costs_usd, "cost to the target [USD]", lambda amount: f"${quantity(amount)}")
        handles = [
            key_of_marks(colour=hue(place), shape=mark(place), label=shown(each)) for place, each in enumerate(series)
        ]
        if not all(run.reached for run in runs):
            handles.append(key_of_marks(colour=SOFT, shape="o", label=f"{_MISSED}, in time and cost", missed=True))
        if front:
            handles.append(key_of_marks(colour=INK, shape="", label="Pareto front of the medians (+)", line="-"))
        head(canvas, title, handles, columns=2)

    best = "; ".join(
        f"{name}, {shown(size.size, 24)}: {time_s:.4g} s, {usd(cost)}"
        for (name, size), (time_s, cost) in zip(front, corners, strict=True)
    )
    drawing = Drawing(
        name=f"{_slug(first.task)}-cost-against-time",
        title=title,
        notes=tuple(notes),
        description=f"Cost against time to the target of {len(runs)} runs of {len(sizes)} sizes"
        + (f". On the Pareto front of the medians, the fastest first: {best}" if front else ""),
        paint=paint,
        size_in=(7.5, 4.4 + 0.1 * len(series)),  # the legend has two columns
    )
    return [drawing]


def _paint_median(axes: Axes, x: float, y: float, colour: str, name: str, below: bool) -> None:
    """Paint the medians of a size, with a name above and to the left, or below and to the right.

    Runs of a size scatter along the other diagonal.
    """
    axes.plot([x], [y], linestyle="none", marker="+", markersize=11, color=INK, zorder=5)
    axes.annotate(
        name, (x, y), xytext=(6, -5) if below else (-6, 5), textcoords="offset points", ha="left" if below else "right",
        va="top" if below else "bottom", fontsize=8, color=colour, zorder=3,
    )  # fmt: skip
