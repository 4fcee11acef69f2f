"""``serve.py``: what ends it, and what does not."""

from __future__ import annotations

import os
from pathlib import Path

from tests.fakes.live import LiveTraining
from tests.fakes.serving import serving
from tests.fakes.waiting import wait_until
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


def test_a_ledger_that_vanishes_is_told_and_the_page_stays(tmp_path: Path) -> None:
    with LiveTraining(tmp_path / "logs", "aa"), serving(tmp_path / "logs", every_s=1) as server:
        (tmp_path / "logs").rename(tmp_path / "moved")
        wait_until(lambda: ask(server, "/live").status == 200 and "stays as it is" in server.errors(), "it is told", 60)
        assert "aa" in ask(server, "/live").text
