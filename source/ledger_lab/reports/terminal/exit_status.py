"""Exit statuses of attempts, and the status of an attempt whose process ended without writing one."""

from __future__ import annotations

import re
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from ledger_lab.ledger import Status
from ledger_lab.ledger.control_groups import kill_counters, read_text
from ledger_lab.ledger.endings import Terminated
from ledger_lab.reports.terminal.console import EXIT_USER_ERROR

ENDING = {
    signal.SIGINT: Status.INTERRUPTED,
    signal.SIGQUIT: Status.INTERRUPTED,
    signal.SIGHUP: Status.INTERRUPTED,
    signal.SIGTERM: Status.PREEMPTED,
    signal.SIGUSR1: Status.PREEMPTED,
    signal.SIGUSR2: Status.PREEMPTED,
    signal.SIGXCPU: Status.PREEMPTED,
}
"""Signals with which terminals and schedulers ask a process to end, with the resulting status."""

EXIT_LIMIT = 124
"""Exit status of a run that used up its limit: that of the command ``timeout``."""

_EXIT_STATUS = {
    Status.COMPLETED: 0,
    Status.TARGET_REACHED: 0,
    Status.REFUSED: EXIT_USER_ERROR,
    Status.INTERRUPTED: 130,
    Status.KILLED: 137,
    Status.LIMIT_REACHED: EXIT_LIMIT,
    Status.PREEMPTED: 143,
}


EXIT_REQUEUE = 75
"""Temporary failure in sysexits.h: the caller may try again, with ``--resume``."""

RECENT_KILL_S = 10.0
"""Longest time between the kernel's decision to kill a process and the exit of that process, which must first give back
its memory [s]. An earlier kill was that of another process."""


def exit_status_of(status: Status, resumable: bool = False) -> int:
    """Return the exit status for the status of an attempt; 0 only if all work was done.

    Args:
        status: How it ended.
        resumable: Whether the run can be resumed from a state on disk.
    """
    return EXIT_REQUEUE if status is Status.PREEMPTED and resumable else _EXIT_STATUS.get(status, 1)


def exception_of(ending: signal.Signals) -> BaseException:
    """Return the exception for a signal that asks a process to end.

    Args:
        ending: One of :data:`ENDING`.
    """
    return (KeyboardInterrupt if ENDING[ending] is Status.INTERRUPTED else Terminated)(ending.name)


def status_of_exit(
    code: int, asked: signal.Signals | None, killed: str | None, killed_for_memory: bool | None
) -> tuple[Status, str]:
    """Return the status and the reason of an attempt whose process ended without writing them.

    Args:
        code: Exit status of the process, or the negative number of the signal that ended it.
        asked: The signal that had asked it to end, if any.
        killed: Reason for which the supervisor killed it, if it did.
        killed_for_memory: Whether the kernel has just killed a process because memory was short; ``None`` if unknown.

    Returns:
        The status, and the reason in one line.
    """
    if asked is not None and killed is not None:
        return ENDING[asked], f"{asked.name}; killed, {killed}"
    signum = -code if code < 0 else code - 128  # the exit status of a program that handles the signal and then exits
    if signum in ENDING:
        ended_by = signal.Signals(signum) if asked is None else asked
        return ENDING[ended_by], ended_by.name
    if code >= 0:
        return Status.CRASHED, f"the process ended with exit status {code} and without a word"
    if -code == signal.SIGKILL:
        if killed_for_memory:
            return Status.OUT_OF_MEMORY, "SIGKILL: the kernel killed the process for lack of host memory"
        if killed_for_memory is None:
            return Status.KILLED, "SIGKILL; this kernel does not tell whether for lack of memory"
        return Status.KILLED, "SIGKILL by another process, not for lack of memory"
    return Status.CRASHED, f"{name_of(-code)}: a fault outside Python"


def name_of(signum: int) -> str:
    """Return the name of a signal; only two of the real-time signals have one."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


class OutOfMemoryKills:
    """Counter of processes that the kernel killed because memory was short, in this control group or on this host."""

    def __init__(self, root: Path = Path("/"), clock_s: Callable[[], float] = time.monotonic) -> None:
        """Read the present count.

        Args:
            root: Folder that contains ``proc`` and ``sys``.
            clock_s: Clock [s].
        """
        self._root, self._clock_s = root, clock_s
        self._looks = deque([(clock_s(), self._count())])

    def look(self) -> None:
        """Read the count. Call this every second, so that recent kills are distinguished from earlier kills."""
        now_s = self._clock_s()
        self._looks.append((now_s, self._count()))
        while self._looks[1][0] <= now_s - RECENT_KILL_S:
            self._looks.popleft()

    def happened(self) -> bool | None:
        """Tell whether the count has risen in the last :data:`RECENT_KILL_S`; ``None`` if there is no counter."""
        self.look()
        before, now = self._looks[0][1], self._looks[-1][1]
        return None if now is None or before is None else now > before

    def _count(self) -> int | None:
        """Return the nearest counter of a control group or of the host; others also count other programs' processes."""
        for source in (*kill_counters(self._root), self._root / "proc" / "vmstat"):
            found = re.search(r"^oom_kill (\d+)$", read_text(source), re.MULTILINE)
            if found:
                return int(found.group(1))
        return None


def asks_to_resume(argv: Sequence[str]) -> bool:
    """Tell whether a command line contains ``--resume``, in full or shortened as the parser allows.

    Args:
        argv: Command line of any program.
    """
    names = (argument.partition("=")[0] for argument in argv)
    return any(name.startswith("--res") and "--resume".startswith(name) for name in names)
