"""Trainings, resumed trainings and evaluations on a disk that begins to fail."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ledger_lab.ledger import Run, Status, read_ledger
from tests.conftest import ROOT, command, one_run_dir, script
from tests.fakes.supervised import run_of
from tests.faults.conftest import Disk

ERRORS = ("ENOSPC", "EIO", "EROFS")
LONG = ("--num_envs", "16", "--max_iterations", "100000", "--device", "cpu", "--no_eval", "--save_state_every", "1")


def fails_during(disk: Disk, error: str, row: str, name: str, *arguments: str | Path) -> tuple[int, str]:
    """Run a script until one of its journals holds a row, let the disk fail until the script has ended, and heal it.

    Returns:
        Exit status and output.
    """

    def written() -> bool:
        return any(row in path.read_text(errors="replace") for path in disk.behind.rglob("journal-*-0.jsonl"))

    assert not written()
    program = command(name, *arguments)
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while not written():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        disk.fail(error)
        said, _ = process.communicate(timeout=120)
    disk.heal()
    assert "Traceback" not in said
    assert script("verify_ledger", "--log_root", disk.behind).returncode == 0
    return process.returncode, said


def require_checkpoints(run: Run) -> None:
    """Check that all checkpoints of the ledger are whole."""
    for saved in run.checkpoints:
        assert (run.directory / saved.path).stat().st_size == saved.size_bytes


@pytest.mark.slow
@pytest.mark.parametrize("library", ["rsl_rl", "rl_games", "skrl"])
@pytest.mark.parametrize("error", ERRORS)
def test_a_training_on_a_failing_disk_ends_and_claims_no_success(disk: Disk, library: str, error: str) -> None:
    asked = (*LONG, "--rl_library", library, "--log_root", disk.path)
    status, said = fails_during(disk, error, '"StateSaved"', "train", *asked)
    assert status == 1
    assert "the end could not be written" in said
    run = run_of(disk.behind)
    (attempt,) = run.attempts
    assert attempt.ended is None and attempt.status is Status.LOST
    require_checkpoints(run)


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS)
def test_a_resumed_training_on_a_failing_disk_ends_and_claims_no_success(disk: Disk, error: str) -> None:
    asked = ["--num_envs", "16", "--max_iterations", "100000", "--device", "cpu", "--save_state_every", "1"]
    begun = [*command("train")[:1], str(ROOT / "tests" / "fakes" / "interrupted.py"), *asked]
    stopped = subprocess.run([*begun, "--log_root", str(disk.behind), "1:SIGTERM"], cwd=ROOT, check=False)
    assert stopped.returncode == 75
    run_dir = disk.path / one_run_dir(disk.behind).relative_to(disk.behind)
    status, said = fails_during(disk, error, '"StateRestored"', "train", "--resume", run_dir, "--log_root", disk.path)
    assert status == 1
    assert "the end could not be written" in said
    run = run_of(disk.behind)
    assert [attempt.status for attempt in run.attempts] == [Status.PREEMPTED, Status.LOST]
    require_checkpoints(run)


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS)
def test_an_evaluation_on_a_failing_disk_leaves_no_score(disk: Disk, trained: Path, error: str) -> None:
    shutil.copytree(one_run_dir(trained), disk.behind / "run", ignore=shutil.ignore_patterns("journal-evaluation-*"))
    asked = (disk.path / "run", "--device", "cpu", "--log_root", disk.path)
    status, said = fails_during(disk, error, '"EvaluationStarted"', "evaluate", *asked)
    assert status in (1, 2), "the disk ends the simulation, or refuses its start"
    assert os.strerror(getattr(errno, error)) in said
    (run,) = read_ledger(disk.behind).runs
    assert not run.evaluations
