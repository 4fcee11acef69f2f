"""Links of the documentation lead somewhere, and every script stands in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.reference import scripts_page

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "CONTRIBUTING.md",
    *(page for page in (ROOT / "docs").rglob("*.md") if not {"_build", "_generated"} & set(page.parts)),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_point_to_files(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    missing = [
        link
        for link in links
        if "://" not in link and "_generated/" not in link and not (page.parent / link).resolve().exists()
    ]
    assert not missing


def test_every_script_has_a_reference_entry() -> None:
    page = scripts_page(lambda path: f"usage: {path.name}")
    names = {path.name for path in (ROOT / "scripts").iterdir() if path.suffix == ".py"}
    assert names == set(re.findall(r"^## (.+)$", page, flags=re.MULTILINE))
