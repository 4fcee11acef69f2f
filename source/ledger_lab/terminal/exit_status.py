"""What the end of a process says of an attempt that said nothing itself."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from ledger_lab.ledger import Status
from ledger_lab.ledger.endings import Terminated

ENDING = {
    signal.SIGINT: Status.INTERRUPTED,
    signal.SIGQUIT: Status.INTERRUPTED,
    signal.SIGHUP: Status.INTERRUPTED,
    signal.SIGTERM: Status.PREEMPTED,
    signal.SIGUSR1: Status.PREEMPTED,
    signal.SIGUSR2: Status.PREEMPTED,
    signal.SIGXCPU: Status.PREEMPTED,
}
"""Signals by which terminals and schedulers ask a process to end, and the status of what ends by them."""

_EXIT_STATUS = {
    Status.COMPLETED: 0,
    Status.TARGET_REACHED: 0,
    Status.INTERRUPTED: 130,
    Status.KILLED: 137,
    Status.PREEMPTED: 143,
}


EXIT_REQUEUE = 75
"""What sysexits.h calls a temporary failure: whoever reads it is invited to try again, with ``--resume``."""


def exit_status_of(status: Status, resumable: bool = False) -> int:
    """Return the exit status of a program whose attempt ended so: 0 only if all work was done.

    Args:
        status: How it ended.
        resumable: Whether there is a state on disk that the run can be resumed from.
    """
    return EXIT_REQUEUE if status is Status.PREEMPTED and resumable else _EXIT_STATUS.get(status, 1)


def exception_of(ending: signal.Signals) -> BaseException:
    """Return what a signal raises that asks a process to end.

    Args:
        ending: One of :data:`ENDING`.
    """
    return (KeyboardInterrupt if ENDING[ending] is Status.INTERRUPTED else Terminated)(ending.name)


def status_of_exit(
    code: int, asked: signal.Signals | None, killed: str | None, killed_for_memory: bool | None
) -> tuple[Status, str]:
    """Return how an attempt ended whose process is gone without a word.

    Args:
        code: Its exit status, or the negative number of the signal that ended it.
        asked: The signal that asked it to end before.
        killed: Why the supervisor killed it, in words, if it did.
        killed_for_memory: Whether the kernel killed a process for want of memory in the meantime; ``None`` where it
            does not tell.

    Returns:
        The status, and the reason in one line.
    """
    if asked is not None and killed is not None:
        return ENDING[asked], f"{asked.name}; killed, {killed}"
    signum = -code if code < 0 else code - 128  # a program that ends by a signal in its own time, exits so
    if signum in ENDING:
        ended_by = signal.Signals(signum) if asked is None else asked
        return ENDING[ended_by], ended_by.name
    if code >= 0:
        return Status.CRASHED, f"the process ended with exit status {code} and without a word"
    if -code == signal.SIGKILL:
        if killed_for_memory:
            return Status.OUT_OF_MEMORY, "SIGKILL: the kernel killed the process for want of host memory"
        if killed_for_memory is None:
            return Status.KILLED, "SIGKILL; this kernel does not tell whether for want of memory"
        return Status.KILLED, "SIGKILL by somebody else, not for want of memory"
    return Status.CRASHED, f"{name_of(-code)}: a fault outside Python"


def name_of(signum: int) -> str:
    """Return the name of a signal; of real-time signals only two have one."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


class OutOfMemoryKills:
    """Processes that the kernel has killed for want of memory: in this control group, else on this host."""

    def __init__(self, root: Path = Path("/")) -> None:
        """Count up to now.

        Args:
            root: Where ``proc`` and ``sys`` are.
        """
        self._root = root
        self._before = self._count()

    def happened(self) -> bool | None:
        """Tell whether there has been one since; ``None`` where nobody counts them."""
        now = self._count()
        return None if now is None or self._before is None else now > self._before

    def _count(self) -> int | None:
        """Return the nearest counter; those that are farther away count others' processes, too."""
        for source in self._sources():
            found = re.search(r"^oom_kill (\d+)$", _text(source), re.MULTILINE)
            if found:
                return int(found.group(1))
        return None

    def _sources(self) -> Iterator[Path]:
        """Find the kernel's counters (cgroups(7): ``memory.events``, ``memory.oom_control``; proc(5): ``vmstat``)."""
        mount = self._root / "sys" / "fs" / "cgroup"
        for line in _text(self._root / "proc" / "self" / "cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                top, name = mount, "memory.events"
            elif "memory" in controllers.split(","):
                top, name = mount / "memory", "memory.oom_control"
            else:
                continue
            group = top / path.lstrip("/")  # in a container only its upper end may be visible
            yield from (folder / name for folder in (group, *group.parents) if folder.is_relative_to(top))
        yield self._root / "proc" / "vmstat"


def _text(path: Path) -> str:
    """Return a file's text; nothing where it can't be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def asks_to_resume(argv: Sequence[str]) -> bool:
    """Tell whether a command line says ``--resume``, in full or shortened, as the training's own parser takes it.

    Args:
        argv: Command line, whatever it is of.
    """
    names = (argument.partition("=")[0] for argument in argv)
    return any(name.startswith("--res") and "--resume".startswith(name) for name in names)
