"""Steps to the target against the batch, and time to the target against the number of processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ledger_lab.reports.figures.drawing import SOFT, Drawing
from ledger_lab.reports.figures.look import (
    between,
    head,
    hue,
    is_crowded,
    joined,
    key_of_marks,
    logarithmic,
    mark,
    run_mark,
    side_by_side,
    size_axis,
    time_unit,
)
from ledger_lab.studies.scaling.batch import BatchFit
from ledger_lab.studies.scaling.laws import Figure
from ledger_lab.studies.scaling.points import ScaledRun, ScalingPoint
from ledger_lab.studies.scaling.studies import Efficiency, efficiency
from ledger_lab.units import quantity

if TYPE_CHECKING:
    from matplotlib import figure
    from matplotlib.axes import Axes

_LAW_HUE = 3
_EFFICIENCIES: tuple[tuple[str, Callable[[Efficiency], float | None]], ...] = (
    ("of the rate", lambda found: found.of_rate),
    ("of the samples", lambda found: found.of_samples),
    ("of the training: rate × samples", lambda found: found.of_training),
    ("of the time, with start-up and scoring", lambda found: found.of_time),
)
MISSED = "target not reached: larger than shown"
"""Words for a hollow mark."""


def draw_steps(name: str, title: str, runs: Sequence[ScaledRun], fit: BatchFit | None) -> Drawing:
    """Draw the environment steps to the target against the batch.

    Args:
        name: Name of the files.
        title: Title of the figure.
        runs: Runs with the same target on the same panel.
        fit: The law that was fitted to them, if there is one.
    """
    trained = [run for run in runs if run.identity.steps]
    batches = sorted({run.batch for run in trained})
    missed = any(not run.reached for run in trained)

    def paint(canvas: figure.Figure) -> None:
        axes = canvas.subplots()
        own = [run.batch for run in trained]
        for run, x in zip(trained, side_by_side(own), strict=True):
            run_mark(
                axes, x, run.identity.steps, run.run_id,
                colour=hue(0), shape=mark(0), missed=not run.reached, crowded=is_crowded(own),
            )  # fmt: skip
        handles = [key_of_marks(colour=hue(0), shape=mark(0), label="run that reached the target")]
        if missed:
            handles.append(key_of_marks(colour=hue(0), shape=mark(0), label=MISSED, missed=True))
        if fit is not None:
            _paint_batch_law(axes, fit)
            handles.append(key_of_marks(colour=hue(_LAW_HUE), shape="", label="\n".join(_batch_words(fit)), line="-"))
        size_axis(axes, batches, "batch: samples per iteration of all processes")
        logarithmic(axes, "y", [run.identity.steps for run in trained], "environment steps to the target")
        head(canvas, title, handles, columns=2)

    return Drawing(
        name=name,
        title=title,
        description=f"Environment steps to the target of {len(trained)} runs with batches of "
        f"{joined([quantity(batch) for batch in batches])} samples"
        + ("; runs that did not reach it are hollow" if missed else "")
        + ("" if fit is None else f", with the fitted {joined(_batch_words(fit))}"),
        paint=paint,
        size_in=(7.0, 4.4),
    )


def draw_times(name: str, title: str, points: Sequence[ScalingPoint]) -> Drawing:
    """Draw the time to the target against the number of processes, and what became of the efficiency.

    Args:
        name: Name of the files.
        title: Title of the figure.
        points: The sizes of a study, the smallest first.
    """
    runs = [run for point in points for run in point.runs]
    sizes = sorted({point.processes for point in points})
    missed = any(not run.reached for run in runs)

    def paint(canvas: figure.Figure) -> None:
        left, right = canvas.subplots(1, 2)
        _paint_times(left, runs, points, sizes)
        drawn = _paint_efficiencies(right, points, sizes)
        handles = [key_of_marks(colour=hue(0), shape=mark(0), label="run, and median of all runs of a size", line="-")]
        if missed:
            handles.append(key_of_marks(colour=hue(0), shape=mark(0), label=MISSED, missed=True))
        handles.append(key_of_marks(colour=SOFT, shape="", label="ideal: as many steps, at N times the rate", line=":"))
        handles += [
            key_of_marks(
                colour=hue(place + 1), shape=mark(place + 1), label=f"efficiency {_EFFICIENCIES[place][0]}", line="-"
            )
            for place in drawn
        ]
        head(canvas, title, handles, columns=2)

    return Drawing(
        name=name,
        title=title,
        description=f"Wall-clock time to the target of {len(runs)} runs with {joined(sizes)} processes"
        + ("; runs that did not reach it are hollow" if missed else "")
        + ", and the efficiency of rate, samples and time",
        paint=paint,
        size_in=(9.0, 4.7),
    )


def _paint_times(axes: Axes, runs: Sequence[ScaledRun], points: Sequence[ScalingPoint], sizes: Sequence[int]) -> None:
    """Paint the time to the target of each run."""
    seconds, symbol = time_unit(max(run.identity.time_s for run in runs))
    counts = [run.processes for run in runs]
    for run, x in zip(runs, side_by_side(counts), strict=True):
        run_mark(
            axes, x, run.identity.time_s / seconds, run.run_id,
            colour=hue(0), shape=mark(0), missed=not run.reached, crowded=is_crowded(counts),
        )  # fmt: skip
    medians = [
        (point.processes, time_s / seconds)
        for point in points
        if (time_s := point.median_to_target(lambda run: run.time_to_target_s)) is not None
    ]
    axes.plot([x for x, _ in medians], [y for _, y in medians], color=hue(0), alpha=0.45, zorder=2)
    if medians and medians[0][0] == sizes[0]:
        first, time = medians[0]
        axes.plot([first, sizes[-1]], [time, time * first / sizes[-1]], color=SOFT, linestyle=":", zorder=1)
    size_axis(axes, sizes, "processes N")
    times = [run.identity.time_s / seconds for run in runs]
    logarithmic(axes, "y", times, f"wall-clock time to the target [{symbol}]", lambda value: f"{value:.3g}")
    axes.set_title("Time to the target")


def _paint_efficiencies(axes: Axes, points: Sequence[ScalingPoint], sizes: Sequence[int]) -> list[int]:
    """Paint the efficiencies of the sizes, and return the places of those that are known."""
    found = [(point.processes, efficiency(point, points[0])) for point in points]
    drawn = []
    for place, (_, read) in enumerate(_EFFICIENCIES):
        known = [(size, share) for size, each in found if (share := read(each)) is not None]
        if len(known) > 1:
            drawn.append(place)
            axes.plot(
                [size for size, _ in known],
                [share for _, share in known],
                color=hue(place + 1),
                marker=mark(place + 1),
                markersize=5,
            )
    axes.axhline(1.0, color=SOFT, linestyle=":", zorder=1)
    size_axis(axes, sizes, "processes N")
    axes.set_ylim(0, max(1.08, axes.get_ylim()[1]))
    axes.set_ylabel(f"efficiency of medians, relative to N = {sizes[0]}")
    axes.set_title("Efficiency")
    return drawn


def _paint_batch_law(axes: Axes, fit: BatchFit) -> None:
    """Paint the law with its band, between the measured batches."""
    smallest, largest = fit.batches[0], fit.batches[-1]
    found = [(batch, fit.at(batch)) for batch in between(smallest, largest)]
    axes.plot([x for x, _ in found], [y.value for _, y in found], color=hue(_LAW_HUE), zorder=3)
    bands = [(x, y.interval) for x, y in found if y.interval is not None]
    if bands:
        lows, highs = ([interval[end] for _, interval in bands] for end in (0, 1))
        axes.fill_between([x for x, _ in bands], lows, highs, color=hue(_LAW_HUE), alpha=0.16, linewidth=0)
    critical = fit.critical_batch.value
    if smallest <= critical <= largest:
        axes.axvline(critical, color=hue(_LAW_HUE), linewidth=0.9, linestyle=":")
        axes.annotate(
            "B_crit", (critical, 1), xycoords=("data", "axes fraction"), xytext=(3, -9), textcoords="offset points",
            color=hue(_LAW_HUE), fontsize=8,
        )  # fmt: skip


def _batch_words(fit: BatchFit) -> tuple[str, str, str]:
    """Return the law, and its two coefficients."""
    fewest, critical = _amount(fit.fewest_samples), _amount(fit.critical_batch)
    return "E_min (1 + B / B_crit)", f"E_min = {fewest} steps", f"B_crit = {critical} samples"


def _amount(found: Figure) -> str:
    """Return a number of samples with its interval, if it has one."""
    if found.interval is None:
        return _samples(found.value)
    low, high = found.interval
    return f"{_samples(found.value)} [{_samples(low)}, {_samples(high)}]"


def _samples(value: float) -> str:
    """Return a number of samples, which may be infinite."""
    return quantity(value) if math.isfinite(value) else "∞"
