"""A training on this machine gets every signal that its program gets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from ledger_lab.ledger.endings import Terminated
from ledger_lab.studies.trainings import train_command, train_here
from tests.conftest import ROOT
from tests.fakes.waiting import wait_until

FOREVER = [sys.executable, "-S", "-c", "import time\ntime.sleep(600)"]


def test_a_signal_while_the_training_is_being_started_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen
    started = []

    def signalled(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        os.kill(os.getpid(), signal.SIGTERM)
        started.append(real(*arguments, **named))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", signalled)
    with pytest.raises(Terminated, match="SIGTERM"):
        train_here(FOREVER)
    assert started[0].returncode == -signal.SIGTERM


def test_a_training_ends_with_its_program_that_is_killed() -> None:
    code = f"from ledger_lab.studies.trainings import train_here; train_here({FOREVER!r})"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        program = psutil.Process(process.pid)
        wait_until(lambda: [each.cmdline() for each in program.children()] == [FOREVER], "it runs", 60, every_s=0.05)
        (training,) = program.children()
        process.kill()
    wait_until(
        lambda: not training.is_running() or training.status() == psutil.STATUS_ZOMBIE,
        "the training has ended",
        60,
        every_s=0.05,
    )


def test_a_training_that_hangs_is_asked_to_end() -> None:
    assert train_here(FOREVER, longest_s=0.1) == -signal.SIGTERM


def test_a_training_is_started_as_the_program_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "study.py")])
    program = train_command(["--seed", "1"], tmp_path)[1]
    assert program.endswith("ledger_lab/cli/scripts/train.py") and Path(program).is_file(), "of the installation"
    (tmp_path / "train.py").touch()
    assert train_command(["--seed", "1"], tmp_path)[1:3] == [str(tmp_path / "train.py"), "--seed"]
    monkeypatch.setattr(sys, "argv", [str(ROOT / "scripts" / "study.py")])
    assert train_command([], tmp_path)[1] == str(ROOT / "scripts" / "train.py"), "not the folder behind the link"
