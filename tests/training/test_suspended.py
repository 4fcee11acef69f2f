"""A training that is suspended and continued."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from signal import SIGCONT, SIGSTOP, SIGTSTP

import psutil
import pytest

from ledger_lab.ledger import Status, read_ledger
from ledger_lab.reports import summarize_run
from tests.conftest import ROOT, command

STOPPED_S = 8.0


@pytest.mark.slow
@pytest.mark.parametrize("everybody", [False, True], ids=["Ctrl-Z", "SIGSTOP of all processes"])
def test_the_time_of_a_suspended_training_counts_for_no_phase_of_its_work(tmp_path: Path, everybody: bool) -> None:
    training = command("train", "--num_envs", "64", "--max_iterations", "60", "--device", "cpu", "--log_root", tmp_path)
    with subprocess.Popen(training, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline_s = time.monotonic() + 300
            while not any(window.iteration for run in read_ledger(tmp_path).runs for _, window in run.windows):
                assert process.poll() is None and time.monotonic() < deadline_s
                time.sleep(0.2)
            supervisor = psutil.Process(process.pid)
            stopped = [supervisor, *supervisor.children(recursive=True)] if everybody else [supervisor]
            since_s = time.monotonic()
            for each in stopped:
                each.send_signal(SIGSTOP if everybody else SIGTSTP)
            time.sleep(STOPPED_S)
            for each in stopped:
                each.send_signal(SIGCONT)
            stopped_s = time.monotonic() - since_s
            assert process.wait(300) == 0
        finally:
            process.kill()
    (run,) = read_ledger(tmp_path).runs
    summary = summarize_run(run)
    assert summary.status in (Status.COMPLETED, Status.TARGET_REACHED)
    assert sum(summary.phases.values()) == pytest.approx(summary.wall_s)
    assert stopped_s - 2 < summary.phases["suspended"] <= stopped_s
