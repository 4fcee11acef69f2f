"""Checks of processor, memory, clock, limits, terminal and loopback interface."""

from __future__ import annotations

import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from ledger_lab.cli.doctor.finding import Finding, fail, ok, warn
from ledger_lab.ledger.control_groups import read_text
from ledger_lab.units import counted

_GIB = 1 << 30
_LEAST_BYTES, _LITTLE_BYTES = int(1.5 * _GIB), 4 * _GIB
"""Memory for the smallest training, and for a training of a robot with 512 environments [B]."""
_FEWEST_FILES, _FEW_FILES = 128, 1024
_MOST_DRIFT_S = 0.05
"""Largest difference between the time of day and the monotonic clock during the checks [s]."""
_OLDEST_S = 1_750_000_000
"""A time of day before this is wrong: it is before the first release [s since 1970]."""
_SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies")


def check_cores(allowed: int, quota: float | None, environ: Mapping[str, str] = os.environ) -> Finding:
    """Check how many threads can compute at a time.

    Args:
        allowed: Cores that the process may use.
        quota: Limit of its control group [cores]; ``None`` without one.
        environ: Environment variables.
    """
    text, usable = counted(allowed, "core"), allowed
    if quota is not None and quota < allowed:
        text, usable = f"{text}, of which the control group allows {quota:g} at a time", max(1, int(quota))
    if quota is not None and quota < 1:
        return warn(f"{text}: a thread has to wait even alone", "raise the limit of the container")
    threads = environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads) > usable:
        return warn(f"{text}, but OMP_NUM_THREADS={threads}", f"set OMP_NUM_THREADS to at most {usable}, or unset it")
    return ok(text)


def check_threads(number: int) -> Finding:
    """Check that a process can start threads.

    Args:
        number: How many to start.
    """
    release = threading.Event()
    started = []
    try:
        for _ in range(number):
            thread = threading.Thread(target=release.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        return fail(
            f"only {len(started)} of {number} threads can be started",
            "end some processes, or raise the limit (ulimit -u, or pids.max of the container)",
        )
    finally:
        release.set()
    return ok(f"{number} threads can be started")


def check_memory(available_bytes: int) -> Finding:
    """Check the memory that this process can still take.

    Args:
        available_bytes: Memory of the host, or less in a limited control group [B].
    """
    text = f"{available_bytes / _GIB:.1f} GiB available"
    if available_bytes < _LEAST_BYTES:
        return fail(
            f"{text}: a small training needs 1.5 GiB", "end other programs, or raise the limit of the container"
        )
    if available_bytes < _LITTLE_BYTES:
        return warn(f"{text}: trainings of robots need up to 4 GiB", "use fewer environments (--num_envs)")
    return ok(text)


def check_clock(now_s: float, drift_s: float, passed_s: float, source: str) -> Finding:
    """Check the clocks.

    Args:
        now_s: Time of day [s since 1970].
        drift_s: By how much the time of day advanced more than the monotonic clock during the checks [s].
        passed_s: Duration of the checks [s].
        source: Clock source of the kernel; empty if unknown.
    """
    if now_s < _OLDEST_S:
        return warn(f"the time of day is wrong: {time.ctime(now_s)}", "set the clock (timedatectl set-ntp true)")
    if abs(drift_s) > _MOST_DRIFT_S:
        return warn(
            f"the time of day was moved by {drift_s:+.2f} s within {passed_s:.0f} s: times in the ledger do not fit "
            "those of other hosts",
            "let one program set the clock in small steps (chrony or systemd-timesyncd)",
        )
    if source in _SLOW_CLOCKS:
        return warn(f"the kernel uses the slow clock {source}: measuring slows trainings", "boot with clocksource=tsc")
    return ok(f"monotonic, no jump in {passed_s:.0f} s" + (f", source {source}" if source else ""))


def clock_source() -> str:
    """Return the clock source of the kernel; empty if unknown."""
    return read_text(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")).strip()


def check_files(limit: int | None = None) -> Finding:
    """Check how many files a process may open.

    Args:
        limit: The limit; by default that of this process.
    """
    if limit is None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY or limit >= _FEW_FILES:
        return ok("unlimited" if limit == resource.RLIM_INFINITY else f"up to {limit} open files")
    found = fail if limit < _FEWEST_FILES else warn
    return found(f"a process may open {limit} files only", f"ulimit -n {4 * _FEW_FILES}")


def check_terminal(encoding: str | None = None, names: str | None = None) -> Finding:
    """Check that all characters of reports can be shown, and that file names can be read.

    Args:
        encoding: Encoding of the output; by default that of standard output.
        names: Encoding of file names; by default that of this process.
    """
    encoding, names = encoding or sys.stdout.encoding or "ascii", names or sys.getfilesystemencoding()
    if names.lower() not in ("utf-8", "utf8"):
        return warn(f"file names are read as {names}", "export LC_ALL=C.UTF-8")
    if encoding.lower() not in ("utf-8", "utf8"):
        return warn(f"the output is {encoding}: some characters are replaced", "export LC_ALL=C.UTF-8")
    return ok("UTF-8")


def check_loopback(address: str = "127.0.0.1") -> Finding:
    """Check that processes of this machine can talk to each other, as several ranks and rendezvous do.

    Args:
        address: Address of the loopback interface.
    """
    try:
        with socket.create_server((address, 0)) as server:
            server.settimeout(5)
            port = server.getsockname()[1]
            with socket.create_connection((address, port), timeout=5) as client, server.accept()[0] as accepted:
                client.sendall(b"x")
                accepted.settimeout(5)
                accepted.recv(1)
        socket.getaddrinfo("localhost", port)
    except OSError as error:
        return warn(
            f"processes can't connect to each other ({address}: {error}): trainings with --nproc do not work",
            "bring the loopback interface up (ip link set lo up), and let /etc/hosts name localhost",
        )
    return ok(f"port {port} of {address} could be opened and reached")
