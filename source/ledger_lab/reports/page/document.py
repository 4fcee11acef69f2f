"""Writes the page as one HTML file that needs no other file and no network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from markupsafe import Markup

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger import Cohort, Run
from ledger_lab.ledger.costs import Price
from ledger_lab.ledger.meters import Phase
from ledger_lab.reports.cohort_summary import CohortSummary
from ledger_lab.reports.columns import Shown, TableCell, attribute_docs, columns_of, in_one_line, shown_table
from ledger_lab.reports.page.live import LOOKS, LivePart
from ledger_lab.reports.page.model import PageModel, build_model
from ledger_lab.reports.page.words import WORDS
from ledger_lab.reports.summary import RunSummary
from ledger_lab.reports.yardsticks import Yardstick
from ledger_lab.units import MISSING, target_share

if TYPE_CHECKING:
    from jinja2 import Template

SCRIPTS = (
    "core.js",
    "theme.js",
    "filters.js",
    "curves.js",
    "phases.js",
    "panels.js",
    "times.js",
    "cohorts.js",
    "sides.js",
    "telemetry.js",
    "health.js",
    "follow.js",
    "main.js",
)
"""Parts of the page's script, in order; they share one scope."""

_STYLE_OF_ITS_OWN = re.compile(r'document\.getElementById\("([0-9a-f]{64})"\)')
"""Plotly adds a style sheet for maps unless an element with this id exists. The page draws no maps."""
_HERE = Markup("<!-- live part -->")
"""Stands for the live part while the rest of the page is rendered. No text of a ledger can contain it: its ``<`` would
be escaped."""
_EMPTY_STYLE = ""
"""Plotly adds an empty style element, and fills it through the DOM."""


def write_page(
    path: Path,
    runs: Sequence[Run],
    summaries: Sequence[RunSummary],
    cohorts: Sequence[CohortSummary],
    *,
    source: str = "",
    asked: Price | None = None,
    absent: Sequence[Cohort] = (),
    left_out_runs: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the page of some runs.

    Args:
        path: File to write; appears only when it is complete.
        runs: The runs.
        summaries: Their figures, in the same order.
        cohorts: Figures of their cohorts.
        source: Name of the ledger, shown to the reader.
        asked: Price that replaces the declared prices.
        absent: Declared cohorts without a run.
        left_out_runs: Runs of the ledger that are not among these.
        on_progress: Called with the number of runs read and the total; each run is read twice.

    Raises:
        UserError: If the file can't be written.
    """
    created_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    model = build_model(
        runs, summaries, cohorts,
        source=source, created_at=created_at, asked=asked, absent=absent, left_out_runs=left_out_runs,
        on_progress=on_progress,
    )  # fmt: skip
    try:
        save_page(path, render_page(model))
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def save_page(path: Path, document: str) -> None:
    """Replace the file of a page as a whole.

    Args:
        path: The file.
        document: The page.

    Raises:
        OSError: If the file can't be written.
        UserError: If there is something else under this name.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():  # a device or a directory must not be renamed away
        raise UserError(f"cannot write {path}: it exists and is not a regular file")
    with whole_file(target, shared=True) as unfinished:
        unfinished.write_bytes(document.encode("utf-8", errors="replace"))


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
class PageFrame:
    """A page without its live part, which changes more often than the rest."""

    before: str
    after: str

    def with_live(self, live: LivePart) -> str:
        """Return the page with a live part.

        Args:
            live: The live part.
        """
        return f"{self.before}{render_live(live)}{self.after}"


def render_page(model: PageModel) -> str:
    """Return a page that is done, as one HTML document.

    Args:
        model: The page's content.
    """
    frame = render_frame(model)
    return frame.before + frame.after


def render_frame(model: PageModel, mode: Mode = "done", version: int = 0, *, bare: bool = False) -> PageFrame:
    """Return the page as one HTML document, without its live part.

    The template engine escapes every text from the ledger. Only the embedded JSON, styles and scripts are made safe
    here. The content security policy allows the two embedded scripts, by their hashes, and no network access. No policy
    can forbid all navigation, but a page that is done has no link to another page. A page that lives links to files of
    the runs on it.

    Args:
        model: The page's content.
        mode: How the page lives.
        version: Number of this content; another content has another number.
        bare: Whether to leave out styles and scripts, for a page that has them already.
    """
    plotly, script, style = _plotly_script(), _page_script(), page_part("page.css")
    page = page_template("page.html").render(
        model=model,
        mode=mode,
        version=version,
        bare=bare,
        live_part=_HERE,
        cost_tables=[_cost_table(model, place) for place in range(len(model.yardsticks))],
        cohort_table=_cohort_table(model),
        words=_definitions(),
        phases=[(Phase[name], in_one_line(meaning)) for name, meaning in attribute_docs(Phase).items()],
        unused_styles=_STYLE_OF_ITS_OWN.findall(plotly),
        target_share=target_share,
        zip=zip,
        policy=page_policy(mode),
        style=Markup(style),
        data=Markup(embedded_json(model.to_json())),
        plotly=Markup(plotly),
        script=Markup(script),
    )
    before, _, after = page.partition(str(_HERE))
    return PageFrame(before, after)


def render_live(live: LivePart) -> str:
    """Return the live part of a page as HTML.

    Args:
        live: The live part.
    """
    written = datetime.fromtimestamp(live.written_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return page_template("live.html").render(live=live, looks=LOOKS, written=written)


def page_policy(mode: Mode) -> str:
    """Return the content security policy of a page: its own scripts and styles, and pictures that it makes.

    Args:
        mode: How the page lives. Only a served page may ask its server.
    """
    policy = _policy([_plotly_script(), _page_script()], [page_part("page.css"), _EMPTY_STYLE])
    return f"{policy}; connect-src 'self'" if mode == "served" else policy


@cache
def page_template(name: str, package: str = __package__) -> Template:
    """Return a template of a page; all texts that it takes are escaped.

    Args:
        name: Name of its file.
        package: Package of the page.
    """
    from jinja2 import Environment, StrictUndefined

    templates = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return templates.from_string(page_part(name, package))


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


def embedded_json(value: object) -> str:
    """Return JSON that is safe inside a script element: no text in it can end the element, or open a comment.

    Raises:
        ValueError: If a number is not finite.
    """
    plain = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return plain


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return a content security policy of embedded scripts and styles, and pictures that the page makes."""
    return (
        f"default-src 'none'; script-src {hash_sources(scripts)}; style-src {hash_sources(styles)}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def hash_sources(parts: Sequence[str]) -> str:
    """Return the sources in a content security policy that allow some embedded texts.

    Args:
        parts: The texts.
    """
    digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts]
    return " ".join(f"'sha256-{digest}'" for digest in digests)


@cache
def _plotly_script() -> str:
    """Return Plotly's JavaScript, as the installed package ships it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise UserError("--html needs the package plotly: pip install plotly") from error
    script: str = get_plotlyjs()
    return _inside_element(script)


@cache
def _page_script() -> str:
    """Return the page's own script: all parts in one scope of their own."""
    body = "\n".join(page_part(f"js/{name}") for name in SCRIPTS)
    return _inside_element(f'"use strict";\n(() => {{\n{body}\n}})();\n')


def _inside_element(script: str) -> str:
    """Escape text that would end the script element early, and use the line ends that a browser hashes."""
    script = script.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"<(?=/script|!--|script)", r"\\x3c", script, flags=re.IGNORECASE)


@cache
def page_part(name: str, package: str = __package__) -> str:
    """Return the text of a part of a page.

    Args:
        name: Name of the file.
        package: Package of the page, with the file in its folder ``template``.
    """
    return files(package).joinpath("template", name).read_text(encoding="utf-8")
