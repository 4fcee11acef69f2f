"""The launcher of several processes exits with their status."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ledger_lab.training.launch import torchrun_argv


def exit_status_when(run: Callable[[Namespace], None], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Return how the launcher exits when torchrun runs so."""
    from ledger_lab.training.launch import torchrun_agent as torchrun

    monkeypatch.setattr("torch.distributed.run.run", run)
    monkeypatch.setattr(torchrun.logging, "disable", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        torchrun.main(["--nproc-per-node", "2", "train.py", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def exit_status_after(ending: BaseException, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Return how the launcher exits when torchrun ends so."""
    from ledger_lab.training.launch import torchrun_agent as torchrun

    def run(args: Namespace) -> None:
        raise ending

    monkeypatch.setattr(torchrun.signal, "signal", lambda *_: None)
    return exit_status_when(run, monkeypatch, *arguments)


PATIENT = """
import signal, sys, time
from pathlib import Path

def end(signum, _):
    time.sleep(0.3)  # as if it saved its state
    sys.exit(75 if signum == signal.SIGUSR1 else 1)

signal.signal(signal.SIGUSR1, end)
Path(sys.argv[-1], str(time.monotonic_ns())).touch()
for _ in range(2400):
    time.sleep(0.05)
"""


def test_a_signal_is_forwarded_and_the_exit_status_is_that_of_the_processes(tmp_path: Path) -> None:
    program = tmp_path / "patient.py"
    program.write_text(PATIENT)
    (begun := tmp_path / "begun").mkdir()
    with subprocess.Popen(torchrun_argv(2, str(program), [str(begun)]), stderr=subprocess.PIPE, text=True) as launcher:
        deadline = time.monotonic() + 120
        while len(list(begun.iterdir())) < 2:
            assert launcher.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        launcher.send_signal(signal.SIGUSR1)
        _, complaint = launcher.communicate(timeout=60)
    assert launcher.returncode == 75, "which invites to requeue"
    assert complaint == ""


@pytest.mark.parametrize(
    ("signum", "arguments", "exit_status"),
    [
        (signal.SIGTERM, [], 143),
        (signal.SIGUSR1, [], 143),
        (signal.SIGUSR1, ["--resume", "aaaaaaaa"], 75),
        (signal.SIGINT, ["--resume", "aaaaaaaa"], 130),
    ],
)
def test_a_signal_before_there_are_processes_ends_the_launcher(
    signum: signal.Signals, arguments: list[str], exit_status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(_: Namespace) -> None:
        os.kill(os.getpid(), signum)
        time.sleep(60)

    monkeypatch.setattr(psutil.Process, "children", lambda _: [])  # those of other tests
    former = {each: signal.getsignal(each) for each in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}}
    try:
        assert exit_status_when(asked, monkeypatch, *arguments) == exit_status
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "ledger_lab.training.launch.torchrun_agent", "--nproc-per-node", "2"]
        command += ["--master-addr", "127.0.0.1", "--master-port", port, "nothing.py"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: the processes cannot be started: ")
    assert port in line and "choose another port" in line


@pytest.mark.parametrize(
    ("failures", "exit_status"),
    [
        ({1: 2, 0: 143}, 2),  # refused
        ({1: -9, 0: -15}, 137),  # killed early
        ({1: -9, 0: 1}, 1),  # the first rank knows why
        ({0: 143, 1: 143}, 143),
        ({0: 75, 1: 75}, 75),
        ({1: -10, 0: -10}, 75),  # preempted before they listened
        ({1: 1, 0: 75}, 1),  # failed before it began
        ({1: 137, 0: 137}, 137),
        ({3: 1}, 1),  # on another machine
    ],
)
def test_the_exit_status_is_that_of_the_processes(
    failures: dict[int, int], exit_status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

    seen = {rank: ProcessFailure(rank, 2**22 + 1 + rank, code, "") for rank, code in failures.items()}
    assert exit_status_after(ChildFailedError("train.py", seen), monkeypatch, "--resume", "aaaaaaaa") == exit_status
