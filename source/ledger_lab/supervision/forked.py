"""What a supervisor and its working process do first, whatever their parent left them, and which signals they hear."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from ledger_lab.terminal.exit_status import ENDING

_PR_SET_PDEATHSIG = 1
"""From prctl(2): the signal that a process gets when its parent dies."""


def become_worker(supervisor_pid: int) -> None:
    """Lead a process group of our own, without a terminal to wait for, and be told when the supervisor dies.

    Signals that ask us to end, which the supervisor held back, come through from then on.

    Args:
        supervisor_pid: The process that forked this one.
    """
    with suppress(PermissionError):
        os.setpgid(0, 0)
    # Behind the group that has the terminal, whoever reads from it is stopped, and where it asks for it, who writes.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    end_with(supervisor_pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def end_with(parent_pid: int) -> None:
    """Be asked to end when our parent dies; where it is dead already, end at once.

    Args:
        parent_pid: The parent.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        os._exit(1)


def open_standard_streams() -> None:
    """Put something harmless where standard streams are closed, lest the next file becomes one."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


@contextmanager
def noted_signals(
    noted: list[signal.Signals], signal_worker: Callable[[signal.Signals], None]
) -> Iterator[socket.socket]:
    """Note signals instead of dying of them, those that were held back, too, and wake whoever waits on the socket.

    Afterwards, those that ask us to end are ignored: all that is left is to exit with a status that tells the truth.

    Args:
        noted: Where they are appended.
        signal_worker: Passes on that we are suspended, and that we go on.

    Yields:
        The socket.
    """

    def note(signum: int, frame: FrameType | None) -> None:
        noted.append(signal.Signals(signum))

    def suspend(signum: int, frame: FrameType | None) -> None:
        signal_worker(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        signal_worker(signal.SIGCONT)  # reached when somebody lets us go on

    woken, waker = socket.socketpair()
    waker.setblocking(False)
    before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    handlers: dict[signal.Signals, Any] = {signum: note for signum in ENDING}
    handlers |= {signal.SIGTSTP: suspend, signal.SIGCHLD: lambda signum, frame: None}
    previous = {
        signum: signal.signal(signum, handler)
        for signum, handler in handlers.items()
        if signal.getsignal(signum) is not signal.SIG_IGN  # nohup keeps its meaning
    }
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    try:
        yield woken
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, signal.SIG_IGN if signum in ENDING else handler)
        signal.set_wakeup_fd(before)
        woken.close()
        waker.close()
