"""What the end of a process says of an attempt that said nothing itself."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from ledger_lab.ledger import Status

_EXIT_STATUS = {
    Status.COMPLETED: 0,
    Status.TARGET_REACHED: 0,
    Status.INTERRUPTED: 130,
    Status.KILLED: 137,
    Status.PREEMPTED: 143,
}


def exit_status_of(status: Status) -> int:
    """Return the exit status of a program whose attempt ended so: 0 only if all work was done."""
    return _EXIT_STATUS.get(status, 1)


def status_of_exit(
    code: int, asked: signal.Signals | None, overdue: bool, killed_for_memory: bool, grace_s: float
) -> tuple[Status, str]:
    """Return how an attempt ended whose process is gone without a word.

    Args:
        code: Its exit status, or the negative number of the signal that ended it.
        asked: The signal that asked it to end before.
        overdue: Whether it was killed because it did not.
        killed_for_memory: Whether the kernel killed a process for want of memory in the meantime.
        grace_s: How long it had had to end [s].

    Returns:
        The status, and the reason in one line.
    """
    if asked is not None and (overdue or code == -asked):
        status = Status.INTERRUPTED if asked in (signal.SIGINT, signal.SIGHUP) else Status.PREEMPTED
        return status, f"{asked.name}; killed, as it did not end within {grace_s:g} s" if overdue else asked.name
    if code >= 0:
        return Status.CRASHED, f"the process ended with exit status {code} and without a word"
    name = signal.Signals(-code).name
    if -code == signal.SIGKILL:
        if killed_for_memory:
            return Status.OUT_OF_MEMORY, "SIGKILL: the kernel killed the process for want of host memory"
        return Status.KILLED, "SIGKILL by somebody else, not for want of memory"
    if -code in (signal.SIGTERM, signal.SIGUSR1):
        return Status.PREEMPTED, name
    if -code in (signal.SIGINT, signal.SIGHUP):
        return Status.INTERRUPTED, name
    return Status.CRASHED, f"{name}: a fault outside Python"


class OutOfMemoryKills:
    """Processes that the kernel has killed for want of memory, in this control group or on this host."""

    def __init__(self) -> None:
        """Count up to now."""
        self._before = _kills()

    def happened(self) -> bool:
        """Tell whether there has been one since."""
        return any(count > self._before.get(source, 0) for source, count in _kills().items())


def _kills() -> dict[str, int]:
    """Return the kernel's counters (cgroups(7): ``memory.events``, ``memory.oom_control``; proc(5): ``vmstat``)."""
    sources = [Path("/proc/vmstat")]
    groups = Path("/proc/self/cgroup")
    for line in groups.read_text(encoding="utf-8").splitlines() if groups.exists() else ():
        _, controllers, path = line.split(":", 2)
        below = path.lstrip("/")
        if not controllers:
            sources += [Path("/sys/fs/cgroup", below, "memory.events"), Path("/sys/fs/cgroup/memory.events")]
        elif "memory" in controllers.split(","):
            sources.append(Path("/sys/fs/cgroup/memory", below, "memory.oom_control"))
    counts = {}
    for source in sources:
        if not source.is_file():
            continue
        found = re.search(r"^oom_kill (\d+)$", source.read_text(encoding="utf-8"), re.MULTILINE)
        if found:
            counts[str(source)] = int(found.group(1))
    return counts
