"""The README shows what is there: files it links, and pictures of the policies that come with the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ledger_lab import pretrained

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHIPPED = pretrained.shipped_tasks()


def test_every_link_into_the_repository_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", README) if "://" not in link and not link.startswith("#")]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("task", SHIPPED)
def test_a_policy_that_comes_along_is_seen(task: str) -> None:
    picture = f"docs/tasks/{task.removeprefix('LedgerLab-').lower()}"
    assert f"]({picture}.png)]({picture}.mp4)" in README
