"""Configuration of the documentation site."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(_ROOT), str(_ROOT / "source")]

from tools.reference import write_reference  # noqa: E402

write_reference()

project = "LedgerLab"
release = version = tomllib.loads((_ROOT / "extension.toml").read_text(encoding="utf-8"))["package"]["version"]
extensions = ["myst_parser", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "generated"]  # tables that other pages include
html_theme = "furo"
html_title = f"LedgerLab {version}"
html_static_path = ["_static"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
