"""Start of this process, on the clock that measures its phases, and its wait for a processor core."""

from __future__ import annotations

import os
import time
from pathlib import Path


def process_started_ns() -> int:
    """Return the start of this process on the clock of :func:`time.perf_counter_ns`.

    The kernel notes a process's start in clock ticks since boot (proc(5), field 22 of ``/proc/self/stat``), so the
    result is accurate to one tick, usually 10 ms.

    Returns:
        Nanoseconds on the clock of :func:`time.perf_counter_ns`.
    """
    fields_after_name = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    started_ticks = int(fields_after_name[19])
    age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started_ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return time.perf_counter_ns() - max(age_ns, 0)


def starved_ns() -> int:
    """Return how long the main thread of this process was ready to run, and waited for a processor core [ns].

    The kernel counts it in ``/proc/self/schedstat`` (second field). 0 if it does not, or the file can't be read.
    """
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
