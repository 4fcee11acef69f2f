"""The page's section about scaling: the same pictures as the files, embedded as images."""

from __future__ import annotations

from collections.abc import Sequence

from ledger_lab.ledger import Run
from ledger_lab.ledger.costs import Price
from ledger_lab.reports.figures import can_draw
from ledger_lab.reports.page.pictures import PictureGroup, ScalingPart, picture_of
from ledger_lab.reports.summary import RunSummary
from ledger_lab.studies.figures.scaling import draw_ledger

MOST_PICTURES = 40
"""Pictures on a page at most. Each takes a fraction of a second to draw."""


def scaling_part(runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None) -> ScalingPart:
    """Return the section.

    Args:
        runs: The runs of the page.
        summaries: Their summaries, in the same order.
        price: Price that replaces the declared prices.
    """
    groups = draw_ledger(runs, summaries, price)
    if not can_draw():
        return ScalingPart(missing_package=bool(groups))
    drawn: list[PictureGroup] = []
    room, left_out = MOST_PICTURES, 0
    for group in groups:
        if len(group.drawings) <= room:
            pictures = tuple(map(picture_of, group.drawings))
            drawn.append(PictureGroup(title=group.title, pictures=pictures, notes=group.notes))
            room -= len(pictures)
        else:
            left_out += len(group.drawings)
    return ScalingPart(groups=tuple(drawn), left_out=left_out)
