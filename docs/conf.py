"""Configuration of the documentation site."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(_ROOT), str(_ROOT / "source")]

from tools.reference import write_reference  # noqa: E402

write_reference()

_PACKAGE = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "LedgerLab"
author = _PACKAGE["authors"][0]["name"]
copyright = f"2026, {author}"  # noqa: A001 (the name that Sphinx reads)
release = version = _PACKAGE["version"]
extensions = ["myst_parser", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "examples", "generated"]  # what other pages include
html_theme = "furo"
html_title = f"LedgerLab {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_preserve_defaults = True  # the value of a default such as os.environ must not be published

_ATTRIBUTES = {"attribute", "data", "property"}
_kept: dict[str, list[str]] = {}


def _keep(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:  # noqa: ANN401
    """Keep the docstring of an attribute without sections, as it was before Napoleon."""
    if what in _ATTRIBUTES and not any(line.rstrip().endswith(":") for line in lines):
        _kept[name] = list(lines)


def _restore(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:  # noqa: ANN401
    """Restore it: Napoleon takes the words before a colon in its first line as the type of the attribute."""
    if name in _kept:
        lines[:] = _kept.pop(name)


def setup(app: Sphinx) -> None:
    """Connect the handlers around Napoleon's, which has priority 500."""
    app.connect("autodoc-process-docstring", _keep, priority=400)
    app.connect("autodoc-process-docstring", _restore, priority=600)
