"""Pictures on a page: SVG files in ``img`` elements, which run no script, load nothing, and add no text to it."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from ledger_lab.reports.figures import Drawing

_CSS_PIXELS_PER_INCH = 96


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


def picture_of(drawing: Drawing) -> Picture:
    """Paint a picture for a page.

    Args:
        drawing: The figure.
    """
    width_in, height_in = drawing.size_in
    return Picture(
        description=drawing.description,
        address=f"data:image/svg+xml;base64,{base64.b64encode(drawing.render('svg')).decode()}",
        width=round(width_in * _CSS_PIXELS_PER_INCH),
        height=round(height_in * _CSS_PIXELS_PER_INCH),
    )
