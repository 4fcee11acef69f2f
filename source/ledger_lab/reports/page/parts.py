"""Texts that pages consist of: templates, styles and scripts, safe inside their elements."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from ledger_lab.errors import UserError

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


@cache
def page_part(name: str) -> str:
    """Return the text of a part of a page.

    Args:
        name: Name of the file in the folder ``template``.
    """
    return files(__package__).joinpath("template", name).read_text(encoding="utf-8")


@cache
def page_template(name: str) -> Template:
    """Return a template of a page; all texts that it takes are escaped.

    Args:
        name: Name of its file.
    """
    from jinja2 import Environment, StrictUndefined

    templates = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return templates.from_string(page_part(name))


@cache
def plotly_script() -> str:
    """Return Plotly's JavaScript, as the installed package ships it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise UserError("the page needs the package plotly: pip install plotly") from error
    script: str = get_plotlyjs()
    return _inside_element(script)


@cache
def page_script() -> str:
    """Return the page's own script: all parts in one scope of their own."""
    body = "\n".join(page_part(f"js/{name}") for name in SCRIPTS)
    return _inside_element(f'"use strict";\n(() => {{\n{body}\n}})();\n')


def _inside_element(script: str) -> str:
    """Escape text that would end the script element early, and use the line ends that a browser hashes."""
    script = script.replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"<(?=/script|!--|script)", r"\\x3c", script, flags=re.IGNORECASE)


def hash_sources(parts: Sequence[str]) -> str:
    """Return the sources in a content security policy that allow some embedded texts.

    Args:
        parts: The texts.
    """
    digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts]
    return " ".join(f"'sha256-{digest}'" for digest in digests)
