"""Faults injected into real trainings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ledger_lab.ledger import Attempt, Status, read_ledger
from tests.conftest import ROOT, command, script
from tests.fakes.limits import tiny_disk

LONG = ("--num_envs", "64", "--max_iterations", "100000", "--device", "cpu", "--no_eval", "agent.save_interval=1")


def attempt_under(log_root: Path) -> Attempt:
    """Return the one attempt under a root, whose journals are whole."""
    assert script("verify_ledger", "--log_root", log_root).returncode == 0
    (run,) = read_ledger(log_root).runs
    (attempt,) = run.attempts
    return attempt


@pytest.mark.slow
def test_a_full_disk_ends_a_training_and_keeps_all_committed_rows(tmp_path: Path) -> None:
    small, kept = tmp_path / "small", tmp_path / "kept"
    kept.mkdir()
    finished = subprocess.run(
        [*tiny_disk(small, "4m", kept=kept), *command("train", *LONG, "--log_root", small)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert "Traceback" not in finished.stdout
    attempt = attempt_under(kept)
    assert attempt.ended is not None
    assert attempt.status is Status.DISK_FULL, attempt.ended.reason
    assert "No space left on device" in str(attempt.ended.reason)
    (run,) = read_ledger(kept).runs
    assert run.checkpoints
    assert all((run.directory / saved.path).stat().st_size == saved.size_bytes for saved in run.checkpoints)
