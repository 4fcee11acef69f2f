"""Writes the page as one HTML file that needs no other file and no network."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

from markupsafe import Markup

from ledger_lab.ledger.meters.phases import Phase
from ledger_lab.reports.cohort_summary import CohortSummary, Yardstick
from ledger_lab.reports.columns import Shown, TableCell, attribute_docs, columns_of, in_one_line, shown_table
from ledger_lab.reports.page.live import LivePart, render_live
from ledger_lab.reports.page.model import PageModel, build_model
from ledger_lab.reports.page.parts import hash_sources, page_part, page_script, page_template, plotly_script
from ledger_lab.reports.selection import Selection
from ledger_lab.reports.summary import RunSummary
from ledger_lab.units import MISSING, target_share

WORDS = {
    "check, proof": "A checkpoint is checked on the panel of its run, whose seeds stay the same. If it "
    "passes, it is put to the proof: it is scored on fresh seeds. Only a proof that passes proves its success.",
    "missing run": "A run that was declared with its cohort and never started.",
    "training return": "Mean return of recently ended training episodes, with exploration, noise and curriculum. It "
    "does not prove success.",
    "median [lowest, highest]": "Over the runs of a side, if it has several.",
}
"""Meanings of words that are not titles of columns; a column's meaning is in its declaration."""

_STYLE_OF_ITS_OWN = re.compile(r'document\.getElementById\("([0-9a-f]{64})"\)')
"""Plotly adds a style sheet for maps unless an element with this id exists. The page draws no maps."""
_EMPTY_STYLE = ""
"""Plotly adds an empty style element, and fills it through the DOM."""


@dataclass(frozen=True)
class _HtmlTable:
    """A table of the page."""

    columns: list[tuple[str, Shown]]
    rows: list[tuple[int | None, list[TableCell]]]
    """Indices of the rows in the model, with their cells; ``None`` for a row that filters never hide."""
    yardstick: Yardstick | None = None


Mode = Literal["done", "file", "served"]
"""How a page lives: it is done; it is a file that is written again and again; or a server answers its questions."""


@dataclass(frozen=True)
class LivePage:
    """A page that lives, as it is at one time."""

    model: PageModel
    live: LivePart
    mode: Mode

    @cached_property
    def version(self) -> str:
        """Hash of the content: another content has another version."""
        content = f"{self.model.to_json()}{self.model.scaling}"
        return hashlib.sha256(content.encode(errors="replace")).hexdigest()[:16]

    @cached_property
    def whole(self) -> bytes:
        """The whole page; texts from the ledger need not be UTF-8. All viewers of a reading share these bytes."""
        return _render(self.model, self.mode, self.version, live=self.live).encode(errors="replace")

    @cached_property
    def parts(self) -> bytes:
        """The page without live part, styles and scripts, for a browser that has these already."""
        return _render(self.model, self.mode, self.version, bare=True).encode(errors="replace")


def render_page(model: PageModel) -> str:
    """Return a page that is done, as one HTML document.

    The template engine escapes every text from the ledger. Only the embedded JSON, styles and scripts are made safe
    here. The content security policy allows the two embedded scripts, by their hashes, and no network access. No policy
    can forbid all navigation, but a page that is done has no link to another page. A page that lives links to files of
    the runs on it.

    Args:
        model: The page's content.
    """
    return _render(model)


def finished_page(found: Selection, on_progress: Callable[[int, int], None] = lambda drawn, runs: None) -> bytes:
    """Return the HTML file of a page that is done.

    Args:
        found: A ledger, its runs on the page, and their figures.
        on_progress: Called with the number of runs that were drawn, and their total.

    Raises:
        UserError: If Plotly is missing.
    """
    created_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    model = build_model(found, on_progress=on_progress, created_at=created_at)
    return render_page(model).encode(errors="replace")


def _render(
    model: PageModel, mode: Mode = "done", version: str = "", *, live: LivePart | None = None, bare: bool = False
) -> str:
    """Return a page, with or without styles and scripts."""
    from jinja2.utils import htmlsafe_json_dumps

    plotly, script, style = plotly_script(), page_script(), page_part("page.css")
    return page_template("page.html").render(
        model=model,
        mode=mode,
        version=version,
        bare=bare,
        live_part=Markup("" if live is None else render_live(live)),
        cost_tables=[_cost_table(model, place) for place in range(len(model.yardsticks))],
        cohort_table=_cohort_table(model),
        words=_definitions(),
        phases=[(Phase[name], in_one_line(meaning)) for name, meaning in attribute_docs(Phase).items()],
        unused_styles=_STYLE_OF_ITS_OWN.findall(plotly),
        target_share=target_share,
        zip=zip,
        policy=page_policy(mode),
        style=Markup(style),
        data=htmlsafe_json_dumps(model.to_json(), separators=(",", ":"), allow_nan=False),
        plotly=Markup(plotly),
        script=Markup(script),
    )


def page_policy(mode: Mode) -> str:
    """Return the content security policy of a page: its own scripts and styles, and pictures that it makes.

    Args:
        mode: How the page lives. Only a served page may ask its server.
    """
    scripts = hash_sources([plotly_script(), page_script()])
    styles = hash_sources([page_part("page.css"), _EMPTY_STYLE])
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return f"{policy}; connect-src 'self'" if mode == "served" else policy


def _cost_table(model: PageModel, place: int) -> _HtmlTable:
    """Return the table of the runs of one yardstick."""
    own = [index for index, run in enumerate(model.runs) if run.yardstick == place]
    columns, rows = shown_table(RunSummary, [model.runs[index].summary for index in own])
    return _HtmlTable(columns, list(zip(own, rows, strict=True)), model.yardsticks[place])


def _cohort_table(model: PageModel) -> _HtmlTable:
    """Return the table of the cohorts, those without a run included."""
    columns, rows = shown_table(CohortSummary, model.cohorts)
    found: list[tuple[int | None, list[TableCell]]] = list(enumerate(rows))
    for cohort, size in model.absent_cohorts:
        missing = TableCell(f"0 of {size}", details=(f"{size} missing",), style="bad")
        found.append((None, [TableCell(cohort), missing, *[TableCell(MISSING)] * (len(columns) - 2)]))
    return _HtmlTable(columns, found)


def _definitions() -> list[tuple[str, str]]:
    """Return the titles of all columns with their meanings, and other words of the page."""
    columns = [each for kind in (RunSummary, CohortSummary) for each in columns_of(kind)]
    return [*((each.shown.title, each.meaning) for each in columns if each.shown and each.meaning), *WORDS.items()]
