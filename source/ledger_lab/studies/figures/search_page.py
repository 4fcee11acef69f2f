"""The page of a search, as one HTML file without scripts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from ledger_lab.reports.figures import can_draw
from ledger_lab.reports.page import save_page
from ledger_lab.reports.page.parts import hash_sources, page_part, page_template
from ledger_lab.reports.page.pictures import picture_of
from ledger_lab.studies.figures.searches import draw_search
from ledger_lab.studies.search.result import FEWEST_TRIALS, SearchResult
from ledger_lab.studies.search.view import (
    IMPORTANCE_TITLES,
    importance_rows,
    search_lines,
    trial_notes,
    trial_rows,
    trial_titles,
)

_FIGURES = ("race", "population", "importance")
"""Figures of the page: the ends of the names of drawings."""


def write_search_page(path: Path, result: SearchResult, source: str) -> None:
    """Write the page of a search.

    Args:
        path: File to write; it appears only when it is complete.
        result: The search.
        source: Name of the ledger, shown to the reader.

    Raises:
        UserError: If the file can't be written.
    """
    save_page(path, render_search_page(result, source).encode(errors="replace"))


def render_search_page(result: SearchResult, source: str) -> str:
    """Return the page of a search.

    The template engine escapes every text. The page has no script, and loads nothing.

    Args:
        result: The search.
        source: Name of the ledger.
    """
    style = page_part("page.css")
    drawn = draw_search(result) if can_draw() else []
    pictures = dict.fromkeys(_FIGURES) | {each.name.rpartition("-")[2]: picture_of(each) for each in drawn}
    return page_template("search.html", __package__).render(
        search=result.declaration,
        source=source,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        lines=search_lines(result),
        titles=trial_titles(result),
        rows=trial_rows(result, every=True, caps=True),
        notes=trial_notes(result, every=True),
        importance_titles=IMPORTANCE_TITLES,
        importances=importance_rows(result),
        pictures=pictures,
        can_draw=can_draw(),
        fewest=FEWEST_TRIALS,
        zip=zip,
        style=Markup(style),
        policy=(
            f"default-src 'none'; style-src {hash_sources([style])}; img-src data:; base-uri 'none'; form-action 'none'"
        ),
    )
