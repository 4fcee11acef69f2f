"""What the figures share: colours, marks of runs, axes and texts.

The hues are those of Okabe and Ito, which colour-blind readers can tell apart, as on the page. Wherever a colour says
something, a mark, a pattern or a text says it, too.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ledger_lab.names import visible
from ledger_lab.studies.scaling.drawing import INK, PAPER
from ledger_lab.units import quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F", "#8C6D00")
MARKS = ("o", "s", "^", "D", "P", "X", "<", "p")

_LONGEST = 48
"""Characters of a text from a ledger that a figure shows."""
_STEP, _WIDEST = 0.018, 0.1
"""Distance between two runs of the same size, and width of all of them at most, as shares of a logarithmic axis."""
_FEW_FOLD = 4.0
"""Ratio of the ends of a logarithmic axis below which its ticks are evenly spaced numbers."""
_CHARACTERS_PER_INCH = 10
"""Characters of a title that are as wide as an inch, or less."""
_MARGIN = 0.12
"""Room beside the figures of a logarithmic axis for arrows, as a share of its length."""
_UNITS = ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (float("inf"), 3600.0, "h"))


def shown(text: str, longest: int = _LONGEST) -> str:
    """Return a text from a ledger for a figure: without control characters, and not too long.

    Args:
        text: The text.
        longest: Characters to keep.
    """
    seen = visible(text)
    return seen if len(seen) <= longest else f"{seen[: longest - 1]}…"


def hue(place: int) -> str:
    """Return the colour of the series at a place."""
    return HUES[place % len(HUES)]


def mark(place: int) -> str:
    """Return the mark of the series at a place. Series of the same colour have other marks."""
    return MARKS[(place + place // len(HUES)) % len(MARKS)]


def time_unit(longest_s: float) -> tuple[float, str]:
    """Return the seconds of a unit that fits the longest time of an axis, and its symbol.

    Args:
        longest_s: The longest time [s].
    """
    return next((seconds, symbol) for limit, seconds, symbol in _UNITS if longest_s < limit)


def side_by_side(values: Sequence[float]) -> Iterator[float]:
    """Move equal positions on a logarithmic axis apart, so that no run hides another.

    Args:
        values: The positions; at least one.

    Yields:
        The moved positions, in the same order.
    """
    counts, seen = Counter(values), Counter[float]()
    length = math.log(max(values) / min(values)) if len(counts) > 1 else math.log(2)
    for value in values:
        step = min(_STEP, _WIDEST / counts[value]) * length
        yield value * math.exp(step * (seen[value] - (counts[value] - 1) / 2))
        seen[value] += 1


def run_mark(
    axes: Axes,
    x: float,
    y: float,
    run_id: str,
    *,
    colour: str,
    shape: str,
    missed: bool = False,
    arrow: tuple[float, float] = (0.0, 15.0),
) -> None:
    """Draw one run.

    Args:
        axes: Where.
        x: Its position.
        y: Its figure.
        run_id: Its id, which becomes the id of the mark in an SVG file.
        colour: Colour of its series.
        shape: Mark of its series.
        missed: Whether it missed the target: its figure is larger than the shown one. The mark is then hollow, and an
            arrow shows the direction.
        arrow: Direction and length of the arrow [point].
    """
    axes.plot(
        [x],
        [y],
        linestyle="none",
        marker=shape,
        markerfacecolor=PAPER if missed else colour,
        markeredgecolor=colour if missed else PAPER,
        markeredgewidth=1.3 if missed else 0.5,
        markersize=6.0,
        zorder=4,
        gid=f"{'missed' if missed else 'run'}-{shown(run_id)}",
    )
    if missed:
        axes.annotate(
            "",
            xy=(x, y),
            xytext=arrow,
            textcoords="offset points",
            arrowprops={"arrowstyle": "<-", "color": colour, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 3.5},
            zorder=3,
        )


def key_of_marks(*, colour: str, shape: str, label: str, missed: bool = False, line: str = "none") -> Any:  # noqa: ANN401
    """Return an entry for a legend.

    Args:
        colour: Colour of the series.
        shape: Its mark.
        label: Its name.
        missed: Whether the mark is hollow.
        line: Style of its line.
    """
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], linestyle=line, marker=shape, color=colour, label=label,
        markerfacecolor=PAPER if missed else colour, markeredgecolor=colour if missed else PAPER,
        markeredgewidth=1.3 if missed else 0.5,
    )  # fmt: skip


def head(figure: Figure, title: str, handles: Iterable[Any] = (), columns: int = 3) -> None:
    """Write the title above a figure, and the legend below it.

    Args:
        figure: The figure.
        title: The title.
        handles: Entries of the legend, in order.
        columns: Largest number of columns of the legend.
    """
    lines = textwrap.wrap(title, round(_CHARACTERS_PER_INCH * figure.get_figwidth()))
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=10.5, fontweight="bold", color=INK)
    entries = list(handles)
    if entries:
        figure.legend(handles=entries, loc="outside lower left", ncols=min(columns, len(entries)))


def size_axis(axes: Axes, sizes: Iterable[float], title: str) -> None:
    """Make the horizontal axis one of sizes: logarithmic, with a tick at each size.

    Args:
        axes: The axes.
        sizes: The sizes.
        title: Title, with the unit.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(_apart(sorted(set(sizes)))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel(title)


def _apart(ticks: Sequence[float], fold: float = 1.25) -> list[float]:
    """Return the ticks whose labels don't overlap on a logarithmic axis: each is enough times the one before."""
    kept: list[float] = []
    for tick in ticks:
        if not kept or tick >= fold * kept[-1]:
            kept.append(tick)
    return kept


def logarithmic(
    axes: Axes,
    which: Literal["x", "y"],
    values: Iterable[float],
    title: str,
    words: Callable[[float], str] = quantity,
) -> None:
    """Make an axis of measured figures logarithmic.

    Args:
        axes: The axes.
        which: The axis.
        values: The figures.
        title: Title, with the unit.
        words: Writes a tick's figure.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    known = list(values)
    axes.margins(x=_MARGIN if which == "x" else None, y=_MARGIN if which == "y" else None)
    few_fold = not known or max(known) < _FEW_FOLD * min(known)
    axes.set(**{f"{which}scale": "log", f"{which}label": title})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(6) if few_fold else LogLocator(10, subs=(1.0, 2.0, 5.0), numticks=9))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))


def joined(words: Sequence[object]) -> str:
    """Return words as an enumeration: ``1, 2 and 4``."""
    texts = [str(word) for word in words]
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
