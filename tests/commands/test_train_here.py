"""A training on this machine gets every signal that its program gets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from ledger_lab.commands.train_here import train_here
from ledger_lab.ledger.endings import Terminated

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


def test_a_training_that_hangs_is_asked_to_end() -> None:
    assert train_here(FOREVER, longest_s=0.1) == -signal.SIGTERM
