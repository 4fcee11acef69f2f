"""The report at the end of ``train.py``, whose failure changes no exit status."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ledger_lab.ledger import Journal, ShutdownEnded, SupervisionStarted
from ledger_lab.training import final_report
from tests.fakes.ledgers import SECOND, write_run

PROGRAM = """
import sys
from pathlib import Path
from ledger_lab.training.final_report import print_final_report
print_final_report(Path(sys.argv[1]))
heavy = {"torch", "isaaclab", "warp", "numpy"} & {*sys.modules}
sys.exit(3 if heavy else 0)
"""


def reported(run_dir: Path, shell: str = "") -> subprocess.CompletedProcess[str]:
    """Print the report in a process of its own."""
    command = ["bash", "-c", f'set -o pipefail; "$@" {shell}', "bash", sys.executable, "-c", PROGRAM, str(run_dir)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_report_is_printed_and_imports_nothing_heavy(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "my logs; $HOME", "aa", scores=(5, 9), proof=9)
    done = reported(run_dir)
    assert (done.returncode, done.stderr) == (0, "")
    assert "target reached: model_2.pt after 2 iterations, proven at" in done.stdout
    assert f"watch it: ./isaaclab.sh -p scripts/play.py '{run_dir}/model_2.pt' --video --viz newton_gl\n" in done.stdout


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
        assert final_report._ended_run(run_dir).attempts[0].wall_ns == 10 * SECOND, "but not for ever"
        monkeypatch.setattr(final_report, "_OTHERS_S", 600.0)
        last = ShutdownEnded(wall_ns=12 * SECOND, exit_code=0, signal=None, overdue=False)
        monkeypatch.setattr(time, "sleep", lambda seconds: second.append(last))
        assert final_report._ended_run(run_dir).attempts[0].wall_ns == 12 * SECOND


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
