"""``report.py page FILE --follow SECONDS``: what it writes, and what it survives."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger_lab.cli.page import PageReader, PageRequest
from ledger_lab.errors import UserError
from tests.fakes.ledgers import write_run
from tests.fakes.live import LiveTraining
from tests.fakes.waiting import wait_until

ROOT = Path(__file__).parents[2]


@contextmanager
def following(log_root: Path, file: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Follow a ledger within a context."""
    command = [sys.executable, str(ROOT / "scripts" / "report.py"), "page", str(file), "--log_root", str(log_root)]
    process = subprocess.Popen(
        [*command, "--follow", "1", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def reader(root: Path, *runs: str) -> PageReader:
    return PageReader(log_root=root, every_s=1.0, address=lambda run, kind, path: path, runs=runs)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["p.html", "--follow", "0.5"], "--follow: '0.5': give at least 1 s"),
        (["p.html", "--follow", "nan"], "--follow: 'nan': give at least 1 s"),
        (["p.html", "--follow", "inf"], "--follow: 'inf': give at least 1 s"),
        (["p.html", "--follow", "1e300"], "--follow: '1e300': give at least 1 s, and at most"),
    ],
)
def test_flags_that_cannot_work_are_refused(arguments: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        PageRequest.parse(arguments)


def test_the_page_is_written_when_something_changes_and_ends_with_a_word(tmp_path: Path) -> None:
    logs, file = tmp_path / "logs", tmp_path / "page.html"
    logs.mkdir()
    with following(logs, file) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"wrote {file}; it follows")
        assert "No training waits or runs." in file.read_text(), "a ledger without a run is followed, too"
        write_run(logs, "aa")
        wait_until(lambda: "aa</bdi>" in file.read_text(), "the page follows", 60)
        (logs / "rsl_rl" / "e" / "bb").mkdir()
        (logs / "rsl_rl" / "e" / "bb" / "journal-1-0.jsonl").write_text("damaged\n")
        wait_until(lambda: "left out" in file.read_text(), "the page follows", 60)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (143, "", "")
    assert "data-ended" in file.read_text()
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs a folder that root can't read")
@pytest.mark.parametrize("script", ["report", pytest.param("watch", marks=pytest.mark.thorough)])
def test_a_ledger_that_cannot_be_read_for_a_while_ends_no_follower(script: str, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    write_run(shared / "logs", "aa")
    view = ["page", str(tmp_path / "page.html")] if script == "report" else ["--json", "-"]
    command = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), *view, "--log_root", str(shared / "logs")]
    as_a_user = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    with subprocess.Popen(
        [*as_a_user, *command, "--follow", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.readline()
            os.chown(shared, 4321, 4321)
            shared.chmod(0o700)
            assert f"cannot read {shared}/logs: Permission denied" in process.stderr.readline()
            shared.chmod(0o755)
            write_run(shared / "logs", "bb")
            if script == "report":
                wait_until(lambda: "bb</bdi>" in (tmp_path / "page.html").read_text(), "the page follows", 60)
            else:
                process.stdout.readline()
            assert process.poll() is None
        finally:
            process.kill()


def test_only_what_is_new_gives_another_version(tmp_path: Path) -> None:
    write_run(tmp_path, "done")
    reading = reader(tmp_path)
    first, second = reading.read(), reading.read()
    assert second.version == first.version
    with LiveTraining(tmp_path, "aa", cohort="c") as training:
        training.iterate()
        training.save(9)
        third = reading.read()
    assert third.version != first.version
    assert [run.summary.run_id for run in third.model.runs] == ["done", "aa"]
    assert b"policy model_1.pt" in third.whole
