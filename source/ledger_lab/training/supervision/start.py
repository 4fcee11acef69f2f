"""Starts a program in a process of its own, and supervises that process to its end."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, NoReturn

from ledger_lab.errors import UserError
from ledger_lab.ledger.meters.process import part_started_ns
from ledger_lab.ledger.meters.suspension import Suspensions
from ledger_lab.reports.terminal.console import make_console, tell_error
from ledger_lab.reports.terminal.exit_status import ENDING
from ledger_lab.reports.terminal.script import accept_surroundings, run_script
from ledger_lab.training.supervision.attempt import GRACE_S, Link, SupervisorLostError
from ledger_lab.training.supervision.supervisor import STACKS, Supervisor

_PR_SET_PDEATHSIG = 1
"""From prctl(2): sets the signal that a process receives when its parent dies."""

_WATCHED_GRACE_S = 5.0
"""How long a program without an attempt may take to end after a signal [s]."""

type Program = Callable[[Sequence[str], int, Link], Any]
"""Takes the command line without the program's name, the start time of the program, and the supervisor connection."""


def run_supervised(
    program: Program,
    *,
    grace_s: float = GRACE_S,
    shutdown_s: float = 60.0,
    report: Callable[[Path], None] | None = None,
    metered: bool = True,
) -> NoReturn:
    """Run a program in a process of its own, supervise that process to its end, and exit with its true status.

    Args:
        program: The program; heavy imports must happen inside it.
        grace_s: How long the worker may take to end after a signal, unless it sets another time itself [s].
        shutdown_s: How long the worker may take to exit after its end is written [s].
        report: Called with the directory of a run when the last row of its attempt is written; ``None`` for nothing.
        metered: Whether the program may record an attempt or an evaluation.

    Raises:
        SystemExit: Always; with status 0 only if all work was done.
    """
    try:
        started_ns = part_started_ns(os.environ)
    except UserError as error:
        sys.exit(tell_error(error))
    open_standard_streams()
    accept_surroundings()
    if "TORCHELASTIC_RUN_ID" in os.environ:
        end_with(os.getppid())  # torchrun starts sessions of their own, which outlive torchrun
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a parent may have ignored it, and then a child leaves no status
    ours, theirs = Pipe()
    suspensions = Suspensions()
    sys.stdout.flush()
    sys.stderr.flush()
    supervisor_pid = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until both processes can handle them
    try:
        pid = os.fork()
    except OSError as error:
        sys.exit(tell_error(error))
    if pid == 0:
        ours.close()
        become_worker(supervisor_pid)
        link = Link(theirs, suspensions)
        try:
            run_script(lambda argv: program(argv, started_ns, link))
        except SupervisorLostError as error:
            make_console(sys.stderr).print(str(error), style="bold red", soft_wrap=True)
            end_worker(1)
        except SystemExit as end:
            if end.code is not None and not isinstance(end.code, int):
                raise  # Python prints the text
            end_worker(end.code or 0)
    theirs.close()
    supervisor = Supervisor(pid, ours, started_ns, suspensions, grace_s=grace_s, shutdown_s=shutdown_s, metered=metered)
    status = supervisor.run()
    if report is not None and supervisor.recorded is not None:
        try:
            report(supervisor.recorded)
        except Exception as error:  # noqa: BLE001 - the exit status says how the attempt ended, and not the report
            with suppress(OSError):
                tell_error(error)
    exit_with(status)


def run_watched(program: Callable[[Sequence[str]], int | None]) -> NoReturn:
    """Run a program that records no attempt, and make sure that it ends after a signal.

    Some libraries of a simulation replace signal handlers, and then ignore SIGTERM. So the program runs in a process of
    its own, which is killed if it does not end by itself.

    Args:
        program: Takes the command line without the program's name, and returns the exit status. Heavy imports must
            happen inside it.

    Raises:
        SystemExit: Always; with the status of the program.
    """
    run_supervised(lambda argv, started_ns, link: program(argv), grace_s=_WATCHED_GRACE_S, metered=False)


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
