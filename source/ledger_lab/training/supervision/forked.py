"""Sets up streams, process groups and signal handlers of a supervisor and its worker process, and ends the worker."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from ledger_lab.reports.terminal.exit_status import ENDING

_PR_SET_PDEATHSIG = 1
"""From prctl(2): sets the signal that a process receives when its parent dies."""

STACKS = signal.SIGRTMAX
"""Signal after which a worker writes to standard error where each of its threads is, also while it runs native code."""


def become_worker(supervisor_pid: int) -> None:
    """Lead a new process group without terminal input, and receive SIGTERM when the supervisor dies.

    Ending signals, which the supervisor blocked, are delivered from then on.

    Args:
        supervisor_pid: The process that forked this one.
    """
    with suppress(PermissionError):
        os.setpgid(0, 0)
    # A background group is stopped when it reads from the terminal, and with ``stty tostop`` also when it writes.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    end_with(supervisor_pid)
    faulthandler.register(STACKS, all_threads=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


@contextmanager
def handling(signals: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Handle signals within the context, except those that are ignored, as nohup does; then put the handlers back.

    Args:
        signals: The signals.
        handler: The handler; it may change the handlers itself.
    """
    previous = {each: signal.getsignal(each) for each in signals}
    for each, before in previous.items():
        if before is not signal.SIG_IGN:
            signal.signal(each, handler)
    try:
        yield
    finally:
        for each, before in previous.items():
            signal.signal(each, before)


def end_worker(status: int) -> NoReturn:
    """End this process without taking the interpreter apart.

    Python would free thousands of modules of torch, Warp and Isaac Lab one by one, which takes 2 to 4 s; the system
    frees all memory at once. As at any exit, this waits for other threads, runs exit handlers and flushes the standard
    streams first, the way :mod:`multiprocessing` ends its processes.

    Args:
        status: Exit status.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    _flush_standard_streams()
    os._exit(status)


def exit_with(status: int) -> NoReturn:
    """Exit with a status, even if nobody reads the standard streams any more. Python alone would exit with 120 then.

    Args:
        status: Exit status.

    Raises:
        SystemExit: Always.
    """
    _flush_standard_streams()
    sys.exit(status)


def _flush_standard_streams() -> None:
    """Write what the standard streams hold back. If nobody reads a stream any more, the rest goes nowhere."""
    for stream in (sys.stdout, sys.stderr):
        if stream.closed:
            continue
        try:
            stream.flush()
        except OSError:
            with open(os.devnull, "w") as null:
                os.dup2(null.fileno(), stream.fileno())


def end_with(parent_pid: int) -> None:
    """Receive SIGTERM when the parent dies; if it is dead already, exit at once.

    Args:
        parent_pid: Process id of the parent.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        os._exit(1)


def open_standard_streams() -> None:
    """Open the null device for closed standard streams, so that no other file becomes a standard stream."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - stays open for the whole process
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


@contextmanager
def noted_signals(noted: list[signal.Signals], suspend: Callable[[], None]) -> Iterator[socket.socket]:
    """Record signals, including blocked signals, instead of ending. Each signal makes the socket readable.

    Afterwards, ending signals are ignored, so that the process can exit with its true status.

    Args:
        noted: List that signals are appended to.
        suspend: Called on Ctrl-Z. It suspends the worker and this process, and returns when this process is continued.

    Yields:
        The socket.
    """

    def note(signum: int, frame: FrameType | None) -> None:
        noted.append(signal.Signals(signum))

    woken, waker = socket.socketpair()
    waker.setblocking(False)
    before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    handlers: dict[signal.Signals, Any] = {signum: note for signum in ENDING}
    handlers |= {signal.SIGTSTP: lambda signum, frame: suspend(), signal.SIGCHLD: lambda signum, frame: None}
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
