"""Writes the page as one HTML file that needs no other file and no network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

from ledger_lab.costs import Price
from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger import Cohort, Run
from ledger_lab.reports.page.html_tables import cohort_table, cost_tables, definitions, repricing, selection, text
from ledger_lab.reports.page.model import PageModel, build_model
from ledger_lab.reports.summary import CohortSummary, RunSummary

SCRIPTS = (
    "core.js",
    "theme.js",
    "filters.js",
    "curves.js",
    "phases.js",
    "exams.js",
    "cohorts.js",
    "sides.js",
    "telemetry.js",
    "health.js",
    "main.js",
)
"""Parts of the page's script, in order; they share one scope."""

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_STYLE_OF_ITS_OWN = re.compile(r'document\.getElementById\("([0-9a-f]{64})"\)')
"""Plotly adds a style sheet for maps unless an element with this id exists. The page draws no maps."""
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
        asked: Price that stands in place of the declared ones.
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
    document = render_page(model).encode("utf-8", errors="replace")
    target = path.resolve()
    if target.exists() and not target.is_file():  # a device or a directory must not be renamed away
        raise UserError(f"cannot write {path}: it is there, and is no regular file")
    try:
        with whole_file(target, shared=True) as unfinished:
            unfinished.write_bytes(document)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def render_page(model: PageModel) -> str:
    """Return the page as one HTML document.

    Everything from the ledger is escaped, in the markup and in the embedded JSON. The document's content security
    policy allows its two embedded scripts, by their hashes, and no network access.

    Args:
        model: The page's content.
    """
    plotly, script = _plotly_script(), _page_script()
    style = _part("page.css")
    parts = {
        "policy": _policy([plotly, script], [style, _EMPTY_STYLE]),
        "title": text(f"LedgerLab: {model.source or 'report'}"),
        "source": text(model.source),
        "created_at": text(model.created_at),
        "style": style,
        "selection": selection(model),
        "repricing": repricing(model),
        "cost_tables": cost_tables(model),
        "cohort_table": cohort_table(model),
        "definitions": definitions(),
        "unused_styles": "".join(f'<template id="{name}"></template>' for name in _STYLE_OF_ITS_OWN.findall(plotly)),
        "model": embedded_json(model.to_json()),
        "plotly": plotly,
        "script": script,
    }
    return _PLACE.sub(lambda match: parts[match[1]], _part("page.html"))


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
    """Return the content security policy: embedded scripts and styles, and pictures that the page makes."""
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hashes(parts: Sequence[str]) -> str:
    """Return the policy's hash sources of some embedded texts."""
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
    body = "\n".join(_part(f"js/{name}") for name in SCRIPTS)
    return _inside_element(f'"use strict";\n(() => {{\n{body}\n}})();\n')


def _inside_element(script: str) -> str:
    """Escape text that would end the script element early, and use the line ends that a browser hashes."""
    script = script.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"<(?=/script|!--|script)", r"\\x3c", script, flags=re.IGNORECASE)


@cache
def _part(name: str) -> str:
    """Return a part of the page that lies beside this module."""
    return files("ledger_lab.reports.page").joinpath("template", name).read_text(encoding="utf-8")
