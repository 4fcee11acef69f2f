"""Links of the documentation work, and the reference has every script and every public package."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.reference import rows_page, scripts_page

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / ".github" / "CONTRIBUTING.md",
    *(page for page in (ROOT / "docs").rglob("*.md") if not {"_build", "_generated", "examples"} & set(page.parts)),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_point_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", _prose(page))
    missing = [
        link
        for link in links
        if "://" not in link and "_generated/" not in link and not (page.parent / link).resolve().exists()
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_headings(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*\.md|)#([^)\s]+)\)", _prose(page))
    places = [((page.parent / link if link else page).resolve(), heading) for link, heading in links]
    missing = [heading for place, heading in places if place.exists() and heading not in _headings(place)]
    assert not missing


def _prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def _headings(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub and Sphinx name them."""
    titles = re.findall(r"^#+ (.+)$", _prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_script_has_a_reference_entry() -> None:
    page = scripts_page(lambda path, *view: f"usage: {path.name}")
    names = {path.name for path in (ROOT / "scripts").iterdir() if path.suffix == ".py"}
    assert names == set(re.findall(r"^## (.+)$", page, flags=re.MULTILINE))


def test_every_field_of_a_row_has_a_meaning() -> None:
    fields = [line for line in rows_page().splitlines() if line.startswith("| `")]
    assert len(fields) > 100
    assert [line for line in fields if not line.rstrip(" |").endswith(".")] == []


def test_the_reference_has_every_public_package() -> None:
    packages = ROOT / "source" / "ledger_lab"
    public = {path.parent.name for path in packages.rglob("__init__.py") if _has_public_names(path)}
    internal = {"figures", "health", "launch", "page"}  # of interest within the project
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    modules = re.findall(r"^\.\. automodule:: (\S+)$", page, re.MULTILINE)
    assert [name for name in modules if find_spec(name) is None] == []
    assert {part for name in modules for part in name.split(".")} >= public - internal


def _has_public_names(module: Path) -> bool:
    """Tell whether a module says what it exports."""
    body = ast.parse(module.read_text(encoding="utf-8")).body
    return any(isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__" for each in body)
