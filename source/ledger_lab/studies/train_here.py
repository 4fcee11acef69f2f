"""Runs ``train.py`` on this machine, as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from ledger_lab.clusters.ray_job import ending_with_this_process
from ledger_lab.reports.terminal.exit_status import ENDING, exception_of


def train_command(arguments: Sequence[str], log_root: Path) -> list[str]:
    """Return the command line of a training on this machine: ``train.py`` beside this script, or ``ledgerlab train``.

    Args:
        arguments: Arguments of ``train.py``.
        log_root: Root of the ledger.
    """
    script = Path(sys.argv[0]).with_name("train.py")
    program = [str(script)] if script.is_file() else ["-m", "ledger_lab", "train"]
    return [sys.executable, *program, *arguments, "--log_root", str(log_root)]


def train_here(command: Sequence[str], longest_s: float | None = None, keeps: Sequence[int] = ()) -> int:
    """Train, and return the exit status. A signal that asks this program to end is passed on to the training.

    If something kills this program, the training gets SIGTERM: it saves its state, and ends.

    Args:
        command: The command line.
        longest_s: Time after which the training is taken to hang, and asked to end [s]; ``None`` for never.
        keeps: Descriptors that stay open in the training.

    Raises:
        KeyboardInterrupt: If a signal of the terminal asked to end, after the training has ended.
        Terminated: If another signal asked to end, after the training has ended.
    """
    asked: list[signal.Signals] = []
    early: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def pass_on(signum: int, _: FrameType | None) -> None:
        asked.append(signal.Signals(signum))
        for process in started:
            process.send_signal(signum)
        if not started:
            early.append(signum)

    heard = [signum for signum in ENDING if signal.getsignal(signum) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    former = {signum: signal.signal(signum, pass_on) for signum in heard}
    try:
        with subprocess.Popen([*ending_with_this_process(), *command], pass_fds=keeps) as process:
            started.append(process)
            for signum in early:  # they came while the process was being started
                process.send_signal(signum)
            with suppress(subprocess.TimeoutExpired):
                process.wait(longest_s)
            if process.returncode is None:
                process.terminate()
            status = process.wait()
    finally:
        for signum, handler in former.items():
            signal.signal(signum, handler)
    if asked:
        raise exception_of(asked[0])
    return status
