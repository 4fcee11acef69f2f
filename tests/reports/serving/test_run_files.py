"""Files of a run: only those that are in its directory, and no link out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger_lab.ledger import Run, read_ledger
from ledger_lab.reports.serving.run_files import console_end, open_below, policies, videos
from tests.fakes.live import LiveTraining


def run_with(root: Path) -> Run:
    """Return a run with a policy, two videos, and links that lead out of it."""
    secret = root / "secret"
    secret.write_text("secret")
    with LiveTraining(root / "logs", "aa") as training:
        training.iterate()
        training.save()
        training.iterate()
        linked = training.directory / training.save()
        linked.unlink()
        linked.symlink_to(secret)
    folder = training.directory / "videos" / "p"
    folder.mkdir(parents=True)
    for place, name in enumerate(("new.mp4", "old.mp4")):
        (folder / name).write_bytes(b"film")
        os.utime(folder / name, (10 - place, 10 - place))
    (folder / "link.mp4").symlink_to(secret)
    (root / "elsewhere").mkdir()
    (root / "elsewhere" / "far.mp4").write_bytes(b"film")
    (training.directory / "videos" / "linked").symlink_to(root / "elsewhere")
    (folder / os.fsdecode(b"\xff.mp4")).write_bytes(b"film")
    os.mkfifo(folder / "pipe.mp4")
    (run,) = read_ledger(root / "logs").runs
    return run


def test_links_pipes_and_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    assert [*policies(run)] == ["model_1.pt"]
    assert videos(run) == ["videos/p/new.mp4", "videos/p/old.mp4"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../aa/model_1.pt",
        "model_2.pt",
        "videos/linked/far.mp4",
        "videos",
        "a\0b",
        "videos/p/pipe.mp4",
    ],
)
def test_nothing_else_can_be_opened(tmp_path: Path, path: str) -> None:
    run = run_with(tmp_path)
    with pytest.raises((OSError, ValueError)):
        open_below(run.directory, path)
    os.close(open_below(run.directory, "model_1.pt"))


def test_the_console_of_the_newest_attempt_is_shown_as_on_a_terminal(tmp_path: Path) -> None:
    run = run_with(tmp_path)
    assert console_end(run, 100) is None
    (run.directory / "console.log").write_text("first\n")
    text = "x" * 5000 + "\n10 %\r20 %\r\n\x1b[31mred\x1b[0m\tbell \x07 \u202e end\n\n"
    (run.directory / "console-2.log").write_text(text)
    (run.directory / "console-3.log").symlink_to(tmp_path / "secret")
    assert console_end(run, 100) == ("console-2.log", "20 %\nred    bell \\x07 \\u202e end")
