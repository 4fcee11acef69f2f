"""Checks whether the process that wrote a row still runs, and whether an attempt may still write."""

from __future__ import annotations

import errno
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ledger_lab.errors import UserError
from ledger_lab.ledger.rows import ProcessIdentity, Status

if TYPE_CHECKING:
    from ledger_lab.ledger.runs import Attempt

_START_TICKS = 22 - 3
"""Place of the start time among the fields of ``/proc/PID/stat`` that follow the name of the program."""


@cache
def _here() -> tuple[str, int]:
    """Return the id of this boot of the kernel and of this process's PID namespace."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return boot_id, os.stat("/proc/self/ns/pid").st_ino


def _require_own_processes() -> None:
    """Check that ``/proc`` shows the processes of this PID namespace, with the numbers that they have here.

    ``unshare --pid --fork`` without ``--mount-proc`` leaves the ``/proc`` of another namespace.

    Raises:
        OSError: If it shows those of another namespace, or is missing.
    """
    if os.readlink("/proc/self") != str(os.getpid()):
        raise OSError(errno.ESRCH, "/proc shows the processes of another PID namespace", "/proc")


def _start_ticks(pid: int) -> int | None:
    """Return when a process started, in ticks since the boot; ``None`` if it does not exist or is a zombie.

    Raises:
        OSError: If the system hides the processes of other users, and this is one of them; or ``/proc`` shows those of
            another PID namespace.
    """
    itself = pid == os.getpid()
    if not itself:
        _require_own_processes()
    try:
        stat = Path("/proc", "self" if itself else str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        if _exists(pid):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), f"/proc/{pid}/stat") from None
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_START_TICKS])


def _exists(pid: int) -> bool:
    """Tell whether there is a process that only another user may look at."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return False  # it has ended meanwhile, or begun: with this number, it is another one


def identify_process(pid: int) -> ProcessIdentity | None:
    """Return the identity of a process; ``None`` if the process or the information does not exist.

    Args:
        pid: Process id in the PID namespace of this process.
    """
    try:
        (boot_id, namespace), ticks = _here(), _start_ticks(pid)
    except OSError:
        return None
    return None if ticks is None else ProcessIdentity(boot_id=boot_id, pid_namespace=namespace, start_ticks=ticks)


def is_alive(pid: int, identity: ProcessIdentity | None) -> bool | None:
    """Tell whether a process that wrote a row on a host of this name still runs.

    Args:
        pid: Its process id.
        identity: Its identity; ``None`` if it was unknown: then any process with this id counts.

    Returns:
        Whether it runs; ``None`` if this process can't know, because the other process belongs to another boot of the
        kernel or another PID namespace, or the system hides its processes.
    """
    try:
        if identity is not None and (identity.boot_id, identity.pid_namespace) != _here():
            return None
        ticks = _start_ticks(pid)
    except OSError:
        return None
    return ticks is not None and (identity is None or ticks == identity.start_ticks)


def may_still_write(attempt: Attempt, run_dir: Path) -> bool:
    """Tell whether an attempt without a recorded end may still write. It is asked before another attempt begins.

    A status depends on the times in rows, which are by the clock of the host that wrote them. If that clock is wrong,
    a live attempt looks lost. So the file times of its journals are asked, too: they and :func:`file_system_time` are
    by the same clock.

    Args:
        attempt: The attempt.
        run_dir: Directory of its run.

    Raises:
        UserError: If the directory can't be written to.
    """
    if attempt.ended is not None:
        return False
    if attempt.status is Status.RUNNING or attempt.is_known_here:
        return attempt.status is Status.RUNNING
    written_s = max(modified_s(journal.path) for journal in attempt.journals)
    return file_system_time(run_dir) - written_s < attempt.silence_limit.total_seconds()


def modified_s(path: Path) -> float:
    """Return when a file was changed, by the clock of its file system [s]; 0 if it no longer exists.

    Args:
        path: The file. To open it makes a network file system ask its server.
    """
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return 0.0


def file_system_time(folder: Path) -> float:
    """Return the time by the clock of the file system that holds a folder [s]: that of a new file.

    Args:
        folder: The folder.

    Raises:
        UserError: If it can't be written to.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock-") as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from error
