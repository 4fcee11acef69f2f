"""Rate and efficiency against the number of processes, with the ideal line and the fitted laws."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
)
from ledger_lab.studies.scaling.laws import Figure, RateFit
from ledger_lab.studies.scaling.rates import SizeRates
from ledger_lab.units import percent

if TYPE_CHECKING:
    from matplotlib import figure
    from matplotlib.axes import Axes

_RATES: tuple[tuple[str, Callable[[SizeRates], float | None]], ...] = (
    ("simulation step", lambda rates: rates.fps_step),
    ("step and inference", lambda rates: rates.fps_step_inference),
    ("total, with learning", lambda rates: rates.fps_total),
)
_TOTAL = 2
"""Place of the rate that the laws are fitted to."""


@dataclass(frozen=True, kw_only=True)
class RatedRun:
    """The rates of one run, or what others published of one size."""

    run_id: str
    rates: SizeRates


def draw_rates(name: str, title: str, runs: Sequence[RatedRun], fits: Sequence[RateFit]) -> Drawing:
    """Draw rates and efficiency of runs with several numbers of processes.

    Args:
        name: Name of the files.
        title: Title of the figure.
        runs: The runs; at least one has a total rate.
        fits: Laws that were fitted to the total rate.
    """
    sizes = sorted({run.rates.processes for run in runs})
    usable = [fit for fit in fits if fit.fits]

    def paint(canvas: figure.Figure) -> None:
        left, right = canvas.subplots(1, 2)
        _paint_rates(left, runs, usable, sizes)
        _paint_efficiency(right, runs, usable, sizes)
        measured = [place for place, (_, read) in enumerate(_RATES) if any(read(run.rates) for run in runs)]
        handles = [
            key_of_marks(colour=hue(place), shape=mark(place), label=_RATES[place][0], line="-") for place in measured
        ]
        handles.append(key_of_marks(colour=SOFT, shape="", label="ideal: the rate grows like N", line=":"))
        handles += [
            key_of_marks(colour=_law_hue(place), shape="", label="\n".join(_law_words(fit)), line="-")
            for place, fit in enumerate(usable)
        ]
        head(canvas, title, handles)

    return Drawing(
        name=name,
        title=title,
        description=f"Environment steps per second, and efficiency, of {len(runs)} runs with "
        f"{joined(sizes)} processes, with the ideal line"
        + (f" and {joined([', '.join(_law_words(fit)) for fit in usable])}" if usable else ""),
        paint=paint,
    )


def _paint_rates(axes: Axes, runs: Sequence[RatedRun], fits: Sequence[RateFit], sizes: Sequence[int]) -> None:
    """Paint the three rates of each run."""
    known: list[float] = []
    for place, (_, read) in enumerate(_RATES):
        series = [(run, rate) for run in runs if (rate := read(run.rates))]
        counts = [run.rates.processes for run, _ in series]
        for (run, rate), x in zip(series, side_by_side(counts), strict=True):
            run_mark(
                axes, x, rate, f"{run.run_id}-{place}",
                colour=hue(place), shape=mark(place), crowded=is_crowded(counts),
            )  # fmt: skip
        medians = _medians([(run.rates.processes, rate) for run, rate in series])
        axes.plot(*_columns(medians), color=hue(place), alpha=0.45, zorder=2)
        if medians:
            first, rate = medians[0]
            ends = [first, sizes[-1]], [rate, rate * sizes[-1] / first]
            axes.plot(*ends, color=SOFT, linestyle=":", zorder=1, gid=f"ideal-{place}")
        known += [rate for _, rate in series]
    for place, fit in enumerate(fits):
        _paint_law(axes, fit, _law_hue(place), lambda processes: 1.0, f"rate-{place}")
    size_axis(axes, sizes, "processes N")
    logarithmic(axes, "y", known, "environment steps per second of all processes [1/s]")
    axes.set_title("Rate")


def _paint_efficiency(axes: Axes, runs: Sequence[RatedRun], fits: Sequence[RateFit], sizes: Sequence[int]) -> None:
    """Paint the efficiency of the total rate of each run."""
    series = [(run, run.rates.fps_total) for run in runs if run.rates.fps_total]
    medians = _medians([(run.rates.processes, rate) for run, rate in series])
    first, rate = medians[0]
    single = rate / first
    counts = [run.rates.processes for run, _ in series]
    for (run, rate), x in zip(series, side_by_side(counts), strict=True):
        share = rate / (single * run.rates.processes)
        run_mark(
            axes, x, share, f"{run.run_id}-efficiency",
            colour=hue(_TOTAL), shape=mark(_TOTAL), crowded=is_crowded(counts),
        )  # fmt: skip
    axes.axhline(1.0, color=SOFT, linestyle=":", zorder=1, gid="ideal-efficiency")
    for place, fit in enumerate(fits):
        _paint_law(axes, fit, _law_hue(place), lambda processes: single * processes, f"efficiency-{place}")
    size_axis(axes, sizes, "processes N")
    axes.set_ylim(0, max(1.08, axes.get_ylim()[1]))
    axes.set_ylabel(f"total rate per process ÷ that of N = {first}")
    axes.set_title("Efficiency of the total rate")


def _paint_law(axes: Axes, fit: RateFit, colour: str, divisor: Callable[[float], float], name: str) -> None:
    """Paint a fitted law with its band, between the measured sizes."""
    counts = between(fit.sizes[0], fit.sizes[-1])
    found = [fit.at(count) for count in counts]
    values = [each.value / divisor(n) for each, n in zip(found, counts, strict=True)]
    axes.plot(counts, values, color=colour, zorder=3, gid=f"law-{name}")
    bands = [(n, each.interval) for each, n in zip(found, counts, strict=True) if each.interval is not None]
    if bands:
        lows, highs = ([interval[end] / divisor(n) for n, interval in bands] for end in (0, 1))
        axes.fill_between(
            [n for n, _ in bands], lows, highs, color=colour, alpha=0.16, linewidth=0, zorder=1, gid=f"band-{name}"
        )


def _law_hue(place: int) -> str:
    """Return the colour of a fitted law."""
    return hue(place + 3)


def _law_words(fit: RateFit) -> list[str]:
    """Return a law and its coefficients."""
    words = [fit.full_name, f"contention {_figure(fit.contention)}"]
    if fit.coherency is not None:
        words.append(f"coherency {_figure(fit.coherency)}")
    if fit.misfit_p_value is None:  # then no test tells whether it may be right
        words.append(f"largest deviation of a size {percent(fit.largest_deviation, 0)}")
    return words


def _figure(found: Figure) -> str:
    """Return a figure with its interval, if it has one."""
    if found.interval is None:
        return f"{found.value:.2g}"
    low, high = found.interval
    return f"{found.value:.2g} [{low:.2g}, {high:.2g}]"


def _medians(values: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return the median of each size, the smallest size first."""
    return [(size, statistics.median(v for n, v in values if n == size)) for size in sorted({n for n, _ in values})]


def _columns(rows: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return the first and the second figures of rows."""
    return [x for x, _ in rows], [y for _, y in rows]
