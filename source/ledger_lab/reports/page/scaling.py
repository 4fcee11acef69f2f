"""The page's figures of scaling studies: the same pictures as the files, embedded as images.

A picture inside an ``img`` element runs no script, loads nothing, and none of its texts can become part of the page.
That is why the page embeds the SVG files as they are. A second version in JavaScript would have to be kept equal.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.costs import Price
from ledger_lab.ledger import Run
from ledger_lab.reports.figures import can_draw, draw_studies
from ledger_lab.reports.figures.ledger import runs_of_several_sizes
from ledger_lab.reports.summary import RunSummary
from ledger_lab.scaling.points import ScaledRun
from ledger_lab.scaling.studies import find_studies

MOST_PICTURES = 40
"""Pictures on a page at most. Each takes a fraction of a second to draw."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture on the page."""

    description: str
    address: str
    """The SVG file as a ``data:`` URI."""
    width: int
    height: int
    """Size in CSS pixels."""


@dataclass(frozen=True, kw_only=True)
class PictureGroup:
    """Pictures that belong together."""

    title: str
    pictures: tuple[Picture, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScalingPart:
    """The page's section about scaling. It is empty if no task was trained with several sizes."""

    groups: tuple[PictureGroup, ...] = ()
    left_out: int = 0
    """Pictures that are left out, because there are too many."""
    missing_package: bool = False
    """Whether there is something to draw, and Matplotlib is not installed."""


class ScalingKeeper:
    """Draws the section, and keeps it until a run that it shows changes."""

    def __init__(self) -> None:
        """Begin empty."""
        self._drawn: list[ScaledRun] = []
        self._part = ScalingPart()

    def part(self, runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None) -> ScalingPart:
        """Return the section.

        Args:
            runs: The runs of the page.
            summaries: Their summaries, in the same order.
            price: Price that replaces the declared prices.
        """
        scaled = runs_of_several_sizes(runs, summaries, price)
        if scaled != self._drawn:
            self._part, self._drawn = _draw(scaled), scaled
        return self._part


def _draw(runs: Sequence[ScaledRun]) -> ScalingPart:
    """Draw the section."""
    groups = draw_studies(find_studies(runs))
    if not groups or not can_draw():
        return ScalingPart(missing_package=bool(groups))
    drawn: list[PictureGroup] = []
    count, left_out = 0, 0
    for group in groups:
        if count + len(group.drawings) > MOST_PICTURES:
            left_out += len(group.drawings)
            continue
        count += len(group.drawings)
        pictures = tuple(
            Picture(
                description=drawing.description,
                address=f"data:image/svg+xml;base64,{base64.b64encode(drawing.render('svg')).decode()}",
                width=round(drawing.size_in[0] * 96),
                height=round(drawing.size_in[1] * 96),
            )
            for drawing in group.drawings
        )
        drawn.append(PictureGroup(title=group.title, pictures=pictures, notes=group.notes))
    return ScalingPart(groups=tuple(drawn), left_out=left_out)
