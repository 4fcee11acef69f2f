"""The page's figures of scaling studies: the same pictures as the files, embedded as images.

A picture inside an ``img`` element runs no script, loads nothing, and none of its texts can become part of the page.
That is why the page embeds the SVG files as they are. A second version in JavaScript would have to be kept equal.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.ledger import Run
from ledger_lab.ledger.costs import Price
from ledger_lab.reports.figures import Drawing, can_draw, draw_studies
from ledger_lab.reports.figures.ledger import Target, by_scaled_target
from ledger_lab.reports.summary import RunSummary
from ledger_lab.studies.reports.scaled_runs import mark_repeated, scaled_run
from ledger_lab.studies.scaling import ScaledRun, find_studies

MOST_PICTURES = 40
"""Pictures on a page at most. Each takes a fraction of a second to draw."""
CSS_PIXELS_PER_INCH = 96


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
    """Draws the section. The pictures of a target are kept until one of its runs changes."""

    def __init__(self) -> None:
        """Begin empty."""
        self._scaled: dict[str, tuple[RunSummary, ScaledRun]] = {}
        self._targets: dict[Target, _TargetFigures] = {}

    def part(self, runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None) -> ScalingPart:
        """Return the section.

        Args:
            runs: The runs of the page.
            summaries: Their summaries, in the same order.
            price: Price that replaces the declared prices; the same at each call.
        """
        targets = by_scaled_target(runs, summaries)
        self._targets = {target: self._figures(target, members, price) for target, members in targets.items()}
        places = [(figures, place) for figures in self._targets.values() for place in range(len(figures.groups))]
        if not can_draw():
            return ScalingPart(missing_package=bool(places))
        drawn: list[PictureGroup] = []
        room, left_out = MOST_PICTURES, 0
        for figures, place in places:
            count = len(figures.groups[place].drawings)
            if count <= room:
                drawn.append(figures.pictures(place))
                room -= count
            else:
                left_out += count
        return ScalingPart(groups=tuple(drawn), left_out=left_out)

    def _figures(
        self, target: Target, members: Sequence[tuple[Run, RunSummary]], price: Price | None
    ) -> _TargetFigures:
        """Return the figures of a target; as long as its runs don't change, the same."""
        scaled = [self._scale(run, summary, price) for run, summary in members]
        runs = mark_repeated([run for run, _ in members], scaled)
        kept = self._targets.get(target)
        return kept if kept is not None and kept.runs == runs else _TargetFigures(runs)

    def _scale(self, run: Run, summary: RunSummary, price: Price | None) -> ScaledRun:
        """Return a run as a point of a scaling study; as long as its summary doesn't change, the same."""
        kept = self._scaled.get(summary.run_id)
        if kept is None or kept[0] is not summary:
            kept = self._scaled[summary.run_id] = (summary, scaled_run(run, summary, price))
        return kept[1]


class _TargetFigures:
    """The figures of one target, painted when they are needed."""

    def __init__(self, runs: list[ScaledRun]) -> None:
        """Paint nothing yet."""
        self.runs = runs
        self.groups = draw_studies(find_studies(runs))
        self._pictures: dict[int, PictureGroup] = {}

    def pictures(self, place: int) -> PictureGroup:
        """Return the pictures of a group."""
        if place not in self._pictures:
            group = self.groups[place]
            pictures = tuple(picture_of(drawing) for drawing in group.drawings)
            self._pictures[place] = PictureGroup(title=group.title, pictures=pictures, notes=group.notes)
        return self._pictures[place]


def picture_of(drawing: Drawing) -> Picture:
    """Paint a picture for a page.

    Args:
        drawing: The figure.
    """
    width_in, height_in = drawing.size_in
    return Picture(
        description=drawing.description,
        address=f"data:image/svg+xml;base64,{base64.b64encode(drawing.render('svg')).decode()}",
        width=round(width_in * CSS_PIXELS_PER_INCH),
        height=round(height_in * CSS_PIXELS_PER_INCH),
    )
