"""Start of the program of this process, on the clock that measures its phases, and its wait for a processor core."""

from __future__ import annotations

import os
import time
from collections.abc import MutableMapping
from pathlib import Path

from ledger_lab.errors import UserError

PART_STARTED = "LEDGER_LAB_PART_STARTED"
"""Environment variable with the start of the part of a job that a process belongs to [ns since boot]. The machine is
occupied from then on, and not only from the start of the process, which launchers start later."""


def starved_ns() -> int:
    """Return how long the main thread of this process was ready to run, and waited for a processor core [ns].

    The kernel counts it in ``/proc/self/schedstat`` (second field). 0 if it does not, or the file can't be read.
    """
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0


_LOADED_NS, _BUSY_NS = time.perf_counter_ns(), time.process_time_ns() + starved_ns()
"""When this module was loaded, and how long the process had used a core or waited for one until then [ns]."""


def python_started_ns() -> int:
    """Return when Python started in this process.

    A shell may have installed packages, and then replaced itself by Python (``exec``). It stays the same process, and
    the kernel keeps when the process began, and not when its program did. So the start is computed: when LedgerLab was
    loaded, less the time for which the process had used a core or waited for one until then. A shell does so only for
    moments, because the programs that it starts are other processes. Time in which Python waited for a disk before
    LedgerLab was loaded is left out.

    Returns:
        Nanoseconds on the clock of :func:`time.perf_counter_ns`.
    """
    fields_after_name = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    began_ns = int(fields_after_name[19]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")  # field 22 in proc(5)
    return max(time.perf_counter_ns() - _since_boot_ns() + began_ns, _LOADED_NS - _BUSY_NS)


def part_environ() -> dict[str, str]:
    """Return :data:`PART_STARTED` for programs that continue this one, such as launchers: they begin with its start."""
    return {PART_STARTED: str(_since_boot_ns() - time.perf_counter_ns() + python_started_ns())}


def part_started_ns(environ: MutableMapping[str, str]) -> int:
    """Return the start of the part of a job that this process belongs to; outside a job, the start of its Python.

    Args:
        environ: The environment. :data:`PART_STARTED` is removed from it: programs that this process starts are
            measured from their own start.

    Returns:
        Nanoseconds on the clock of :func:`time.perf_counter_ns`.

    Raises:
        UserError: If the variable holds no time in the past.
    """
    if (noted := environ.pop(PART_STARTED, None)) is None:
        return python_started_ns()
    since_boot_ns = _since_boot_ns()
    if not (noted.isascii() and noted.isdecimal() and len(noted) <= 20 and int(noted) <= since_boot_ns):
        raise UserError(f"{PART_STARTED}={noted[:80]}: unset it, because LedgerLab sets it within jobs")
    return time.perf_counter_ns() - since_boot_ns + int(noted)


def _since_boot_ns() -> int:
    """Return the time since the machine started, with the time that it slept [ns]."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
