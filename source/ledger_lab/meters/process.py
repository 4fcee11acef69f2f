"""Start of this process, on the clock that measures its phases, and its wait for a processor core."""

from __future__ import annotations

import os
import time
from collections.abc import MutableMapping
from pathlib import Path

from ledger_lab.errors import UserError

PART_STARTED = "LEDGER_LAB_PART_STARTED"
"""Environment variable with the start of the part of a job that a process belongs to, in clock ticks since boot. The
machine is occupied from then on, and not only from the start of the process, which launchers start later."""


def process_started_ns() -> int:
    """Return the start of this process on the clock of :func:`time.perf_counter_ns`.

    The result is accurate to one clock tick of the kernel, usually 10 ms.

    Returns:
        Nanoseconds on the clock of :func:`time.perf_counter_ns`.
    """
    return _on_clock_ns(process_started_ticks())


def part_started_ns(environ: MutableMapping[str, str]) -> int:
    """Return the start of the part of a job that this process belongs to; outside a job, the start of this process.

    Args:
        environ: The environment. :data:`PART_STARTED` is removed from it: programs that this process starts are
            measured from their own start.

    Returns:
        Nanoseconds on the clock of :func:`time.perf_counter_ns`.

    Raises:
        UserError: If the variable holds no time before the start of this process.
    """
    if (noted := environ.pop(PART_STARTED, None)) is None:
        return process_started_ns()
    if not (noted.isascii() and noted.isdecimal() and len(noted) <= 20 and int(noted) <= process_started_ticks()):
        raise UserError(f"{PART_STARTED}={noted[:80]}: unset it, because LedgerLab sets it within jobs")
    return _on_clock_ns(int(noted))


def _on_clock_ns(ticks: int) -> int:
    """Return a time in clock ticks since boot on the clock of :func:`time.perf_counter_ns`."""
    age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return time.perf_counter_ns() - max(age_ns, 0)


def process_started_ticks() -> int:
    """Return when this process started, in clock ticks since boot: field 22 of ``/proc/self/stat`` in proc(5)."""
    fields_after_name = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields_after_name[19])


def starved_ns() -> int:
    """Return how long the main thread of this process was ready to run, and waited for a processor core [ns].

    The kernel counts it in ``/proc/self/schedstat`` (second field). 0 if it does not, or the file can't be read.
    """
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
