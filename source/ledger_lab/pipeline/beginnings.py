"""What a supervisor and its working process do first, whatever their parent left them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
"""From prctl(2): the signal that a process gets when its parent dies."""


def become_worker(supervisor_pid: int) -> None:
    """Lead a process group of our own, without a terminal to wait for, and be told when the supervisor dies.

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
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor_pid:
        os._exit(1)


def open_standard_streams() -> None:
    """Put something harmless where standard streams are closed, lest the next file becomes one."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
