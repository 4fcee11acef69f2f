"""The page is one file that needs no other file, and texts of a ledger cannot become markup or code."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.errors import UserError
from ledger_lab.ledger import read_ledger
from ledger_lab.reports.page.document import render_page
from ledger_lab.reports.page.model import build_model
from ledger_lab.reports.selection import select_in
from tests.fakes.ledgers import write_run

HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)> \u2028 \u202e {{plotly}} \" ' & %{y}"


class Outline(HTMLParser):
    """Collects the elements of a document, with the text of scripts and styles."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": []}
        self._open: str | None = None
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag if tag in self.texts else None
        if self._open:
            self.texts[tag].append("")

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._open = None


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a ledger whose texts try to be markup."""
    root = tmp_path_factory.mktemp("hostile")
    write_run(
        root, "aa", proof=9, cohort=HOSTILE, task=HOSTILE, rl_library="x", panel=HOSTILE, panel_id=HOSTILE,
        physics=HOSTILE, device=HOSTILE, hardware={"accelerator": HOSTILE},
    )  # fmt: skip
    model = build_model(select_in(read_ledger(root)), created_at=HOSTILE)
    return render_page(dataclasses.replace(model, source=HOSTILE))


def test_a_hostile_ledger_cannot_add_elements(hostile: str) -> None:
    outline = Outline(hostile)
    assert [tag for tag, _ in outline.elements].count("script") == 3
    assert "img" not in [tag for tag, _ in outline.elements]
    assert not [name for _, attributes in outline.elements for name in attributes if name.startswith("on")]
    assert not set("<>&\u2028\u2029") & set(outline.texts["script"][0])
    data = json.loads(outline.texts["script"][0])
    assert (data["source"], data["runs"][0]["summary"]["task"]) == (HOSTILE, HOSTILE)


def test_the_security_policy_allows_only_embedded_scripts(hostile: str) -> None:
    outline = Outline(hostile)
    (policy,) = [a["content"] for tag, a in outline.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert "unsafe" not in policy and "http" not in policy
    for text in (*outline.texts["script"][1:], *outline.texts["style"]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in directives["script-src"] + directives["style-src"]
    data = base64.b64encode(hashlib.sha256(outline.texts["script"][0].encode()).digest()).decode()
    assert data not in policy


def test_the_page_asks_for_no_other_file(hostile: str) -> None:
    for tag, attributes in Outline(hostile).elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "img")
        assert "src" not in attributes and "style" not in attributes
        assert (attributes.get("href") or "#").startswith("#")


def test_a_page_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "logs", "aa")
    page, link = tmp_path / "page.html", tmp_path / "latest.html"
    page.write_text("old")
    link.symlink_to("page.html")

    def draw(file: Path) -> None:
        assert build_report(["page", str(file), "--log_root", str(tmp_path / "logs")]) == 0

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(UserError, match="No space left"):
            draw(link)
    assert page.read_text() == "old"
    draw(link)
    assert link.is_symlink() and page.read_text().startswith("<!doctype html>")
    for nowhere, reason in ((tmp_path / "no" / "page.html", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(UserError, match=f"cannot write {nowhere}: {reason}"):
            draw(nowhere)
    draw(Path("/dev/null"))
    assert not Path("/dev/null").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest.html", "logs", "page.html"]
    os.umask(mask := os.umask(0))
    assert page.stat().st_mode & 0o777 == 0o666 & ~mask


def test_the_table_says_how_far_a_run_got_that_is_short_of_its_target(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(5, 6))
    page = render_page(build_model(select_in(read_ledger(tmp_path))))
    assert "the best check is 60.0 % of 10 episodes by model_2.pt" in page
