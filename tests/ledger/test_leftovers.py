"""An attempt or an evaluation whose journals were all removed is noticed by what else it left."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger_lab.ledger import STATE_FILE, AttemptStarted, Journal, StateSaved, Status, read_ledger
from tests.conftest import script
from tests.fakes.ledgers import SECOND, result, write_run


def trained_on(run_dir: Path) -> Path:
    """Write a second attempt with its output and a state; return its journal."""
    saved = b"a newer state"
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        journal.append(AttemptStarted(run_id="aa", attempt=2, rank=0, pid=2**22 + 1, host="elsewhere", wall_ns=1))
        journal.append(
            StateSaved(
                sha256=hashlib.sha256(saved).hexdigest(),
                size_bytes=len(saved),
                iteration=2,
                env_steps=80,
                wall_ns=SECOND,
            )
        )
    (run_dir / STATE_FILE).write_bytes(saved)
    (run_dir / "console-2.log").touch()
    return journal.path


def scored(run_dir: Path) -> Path:
    """Write an evaluation with its output; return its journal."""
    with Journal(run_dir / "journal-evaluation-0a-0.jsonl") as journal:
        journal.append(result(run_dir.name, "model_1.pt", 5))
    (run_dir / "journal-evaluation-0a.log").touch()
    return journal.path


@pytest.mark.parametrize(
    ("more", "kept", "named"),
    [
        (
            trained_on,
            "console-2.log",
            "console-2.log:1: it is the console output of attempt 2, whose journals are missing",
        ),
        (trained_on, STATE_FILE, f"{STATE_FILE}:1: no row names this state: the journals of its attempt are missing"),
        (
            scored,
            "journal-evaluation-0a.log",
            ".log:1: it is the console output of an evaluation, whose journals are missing",
        ),
    ],
)
def test_the_newest_journals_leave_traces(tmp_path: Path, more: Callable[[Path], Path], kept: str, named: str) -> None:
    run_dir = write_run(tmp_path, "aa", status=Status.KILLED, state=True)
    (run_dir / "console.log").touch()
    (run_dir / "console-1-1.log").touch()
    before = {path.name for path in run_dir.iterdir()} - {STATE_FILE}
    journal = more(run_dir)
    whole = script("verify_ledger", "--log_root", tmp_path)
    assert (whole.returncode, "damaged:" in whole.stdout) == (0, False), whole.stdout
    journal.unlink()
    cut = script("verify_ledger", "--log_root", tmp_path)
    assert (cut.returncode, named in cut.stdout) == (1, True), cut.stdout
    for path in run_dir.iterdir():
        if path.name not in before | {kept}:
            path.unlink()
    cut = script("verify_ledger", "--log_root", tmp_path)
    assert (cut.returncode, cut.stdout.count("damaged:")) == (1, 1), "each trace is enough"
    assert len(read_ledger(tmp_path).runs) == 1, "reports read no other files"


def test_a_run_without_journals_leaves_its_output(tmp_path: Path) -> None:
    write_run(tmp_path, "aa")
    removed = write_run(tmp_path, "bb")
    (removed / "console.log").touch()
    assert script("verify_ledger", "--log_root", tmp_path).returncode == 0
    (removed / "journal-1-0.jsonl").unlink()
    cut = script("verify_ledger", "--log_root", tmp_path)
    assert cut.returncode == 1
    assert f"{removed}/console.log:1: it is the console output of a run whose journals are missing\n" in cut.stdout
