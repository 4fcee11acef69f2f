"""The report at the end of ``train.py``, whose failure changes no exit status."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ledger_lab.ledger import Journal, ShutdownEnded, Status, SupervisionStarted, read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.answer import PAGE, answer_lines
from ledger_lab.training import final_report
from tests.fakes.ledgers import SECOND, priced, write_run

PROGRAM = """
import sys
from pathlib import Path
from ledger_lab.training.final_report import print_final_report
print_final_report(Path(sys.argv[1]))
heavy = {"torch", "isaaclab", "warp", "scipy.stats", "matplotlib"} & {*sys.modules}
sys.exit(3 if heavy else 0)
"""


def reported(run_dir: Path, shell: str = "") -> subprocess.CompletedProcess[str]:
    """Print the report in a process of its own."""
    command = ["bash", "-c", f'set -o pipefail; "$@" {shell}', "bash", sys.executable, "-c", PROGRAM, str(run_dir)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_proven_run_is_answered_in_six_lines_that_import_nothing_heavy(tmp_path: Path) -> None:
    root = tmp_path / "my logs; $HOME"
    run_dir = write_run(root, "aa", scores=(5, 9), proof=9, status=Status.TARGET_REACHED)
    done = reported(run_dir)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "✓ TARGET REACHED   90.0 % of 10 fresh episodes (95 %: 90.0 to 99.9)   in 0:09   cost – (--usd_per_hour X)",
        "  policy   model_2.pt · 2 iterations, 80 steps",
        "  time     0:09 in all: start-up 2 s · scoring 1 s · learning 6 s · other 0 s",
        "  speed    13.3 steps/s, 11.4 with scoring",
        f"  watch    ./isaaclab.sh -p scripts/play.py aa --video --log_root '{root}'",
        f"  details  ./isaaclab.sh -p scripts/report.py aa --log_root '{root}' · {run_dir / PAGE}",
    ]


@pytest.mark.parametrize("status", [Status.TARGET_REACHED, Status.CRASHED, None])
def test_a_run_has_a_page_however_it_ended(tmp_path: Path, status: Status | None) -> None:
    run_dir = write_run(tmp_path, "aa", status=status)
    assert reported(run_dir).returncode == 0
    page = (run_dir / PAGE).read_text(encoding="utf-8")
    assert "default-src &#39;none&#39;" in page and str(read_ledger(tmp_path).runs[0].declared.task) in page


def test_a_page_that_cannot_be_written_is_named_and_the_answer_stands(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    (run_dir / PAGE).mkdir()
    done = reported(run_dir)
    first, *answer = done.stdout.splitlines()
    assert first == f"the page of the run is missing: cannot write {run_dir / PAGE}: Is a directory"
    assert len(answer) == 7 and answer[-1].startswith("  details") and PAGE not in answer[-1]


def test_a_page_replaces_a_link_and_follows_it_nowhere(tmp_path: Path) -> None:
    run_dir, precious = write_run(tmp_path, "aa"), tmp_path / "precious"
    precious.write_text("mine")
    (run_dir / PAGE).symlink_to(precious)
    assert reported(run_dir).stderr == ""
    assert precious.read_text() == "mine" and not (run_dir / PAGE).is_symlink()


@pytest.mark.parametrize(
    ("fields", "begins"),
    [
        ({}, "✗ TARGET NOT REACHED   90.0 % of 10 checked episodes (95 %: 59.6 to 98.2)   in 0:09"),
        ({"scores": (), "held_out_slots": 0}, "✗ NOT SCORED (--no_eval)   success –   in 0:05"),
        ({"status": Status.LIMIT_REACHED}, "✗ TARGET NOT REACHED (time limit)"),
        ({"status": Status.STOPPED}, "✗ TARGET NOT REACHED (health event)"),
        ({"status": Status.OUT_OF_MEMORY}, "✗ TARGET NOT REACHED (out of memory)"),
        ({"status": None}, "✗ TARGET NOT REACHED (lost)"),
        ({"status": Status.TARGET_REACHED}, "✗ TARGET NOT REACHED (no valid proof is recorded)"),
        ({"status": None, "pid": os.getpid()}, "… NOT REACHED YET"),
        ({"proof": 9, "status": Status.CRASHED, "price": priced()}, "✓ TARGET REACHED   90.0 % of 10 fresh"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_ending_says_whether_the_target_is_reached(tmp_path: Path, fields: dict[str, Any], begins: str) -> None:
    (run,) = read_ledger(write_run(tmp_path, "aa", **fields)).runs
    lines = [line.plain for line in answer_lines(run, summarize_run(run), 1000)]
    assert lines[0].startswith(begins) and len(lines) == 6
    assert lines[0].endswith("cost $9.00") == ("price" in fields)


def test_the_cost_of_a_run_that_went_on_is_that_of_its_whole_time(tmp_path: Path) -> None:
    fields = {"proof": 9, "price": priced(), "stop_at_target": False}
    (run,) = read_ledger(write_run(tmp_path, "aa", **fields)).runs
    summary = replace(summarize_run(run), wall_s=12.0)
    verdict, policy, *_ = (line.plain for line in answer_lines(run, summary, 1000))
    assert verdict.endswith("in 0:09   cost $9.00 for all 0:12")
    assert policy == "  policy   model_2.pt · 2 iterations, 80 steps"


def test_a_score_of_another_policy_than_the_last_is_told_as_that(tmp_path: Path) -> None:
    (run,) = read_ledger(write_run(tmp_path, "aa", status=Status.LIMIT_REACHED)).runs
    summary = summarize_run(run)
    unscored = replace(summary.checkpoints[-1], path="model_9.pt", heldout_successes=None, heldout_episodes=None)
    summary.checkpoints.append(unscored)
    verdict, policy, *_ = (line.plain for line in answer_lines(run, summary, 1000))
    assert "(95 %: 59.6 to 98.2) by model_2.pt   in" in verdict and "policy   model_9.pt" in policy


def test_a_narrow_terminal_breaks_the_lines_between_figures(tmp_path: Path) -> None:
    (run,) = read_ledger(write_run(tmp_path, "aa", scores=(5, 9), proof=9)).runs
    lines = [line.plain for line in answer_lines(run, summarize_run(run), 60)]
    assert lines[1].startswith("  90.0 % of 10") and lines[-4] == f"{'':11}learning 6 s · other 0 s"


def test_it_waits_for_the_last_rows_of_other_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_run(tmp_path, "aa", world_size=2, machines=2)
    with (
        Journal(run_dir / "journal-1-supervisor.jsonl") as first,
        Journal(run_dir / "journal-1-supervisor-1.jsonl") as second,
    ):
        for rank, journal in enumerate((first, second)):
            journal.append(SupervisionStarted(run_id="aa", attempt=1, rank=rank, pid=1, host="h", wall_ns=0))
        first.append(ShutdownEnded(wall_ns=10 * SECOND, exit_code=0, signal=None, overdue=False))
        monkeypatch.setattr(final_report, "_OTHERS_S", 0.0)
        assert final_report._ended_run(run_dir).runs[0].attempts[0].wall_ns == 10 * SECOND, "but not for ever"
        monkeypatch.setattr(final_report, "_OTHERS_S", 600.0)
        last = ShutdownEnded(wall_ns=12 * SECOND, exit_code=0, signal=None, overdue=False)
        monkeypatch.setattr(time, "sleep", lambda seconds: second.append(last))
        assert final_report._ended_run(run_dir).runs[0].attempts[0].wall_ns == 12 * SECOND


def test_output_that_nobody_can_read_ends_well(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    for shell in ("> /dev/full", "> /dev/full 2>&1", "| true"):
        done = reported(run_dir, shell)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_damaged_ledger_is_told_in_one_line(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa")
    journal = run_dir / "journal-1-0.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"model_1", b"model_7"))
    done = reported(run_dir)
    assert done.returncode == 0
    assert done.stdout.startswith(f"error: {journal}:") and done.stdout.count("\n") == 1
