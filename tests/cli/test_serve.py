"""``serve.py``: what ends it, and what does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger_lab.cli import serve as serve_module
from ledger_lab.cli.page_reading import PageReading
from ledger_lab.cli.serve import serve
from ledger_lab.reports.page.content import PageState
from tests.fakes.live import LiveTraining
from tests.fakes.serving import serving
from tests.reports.serving.test_gate import ask


def test_names_that_are_not_utf8_do_not_hide_the_page(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"logs\xff")
    with LiveTraining(root, "aa") as training:
        folder = training.directory / "videos"
        folder.mkdir()
        (folder / os.fsdecode(b"film\xff.mp4")).write_bytes(b"film")
        damaged = root / os.fsdecode(b"\xfe")
        damaged.mkdir()
        (damaged / "journal-1-0.jsonl").write_text("damaged\n")
        with serving(root) as server:
            live = ask(server, "/live")
            assert (live.status, ask(server, "/").status, ask(server, "/parts").status) == (200, 200, 200)
            assert "left out" in live.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_unexpected_error_ends_the_server_instead_of_showing_an_old_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, calls = PageReading.read, []

    def fails_later(self: PageReading, *arguments: object) -> PageState:
        calls.append(arguments)
        if len(calls) > 1:
            raise ZeroDivisionError
        return read(self)

    monkeypatch.setattr(serve_module.PageReading, "read", fails_later)
    assert serve([str(tmp_path), "--port", "0", "--every", "1"]) == 1
    assert len(calls) == 2
