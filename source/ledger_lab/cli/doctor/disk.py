"""Checks of the ledger's file system, the caches, and the folders for temporary files."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from ledger_lab.cli.doctor.finding import Finding, fail, ok, warn
from ledger_lab.errors import UserError
from ledger_lab.ledger.storage import try_storage
from ledger_lab.reports.terminal.kernel_cache import require_kernel_cache

_OCTAL = re.compile(r"\\([0-7]{3})")
"""A blank, a tab, a line break or a backslash in a path of ``/proc/self/mountinfo``."""

_MIB = 1 << 20
_LEAST_BYTES, _LITTLE_BYTES = 100 * _MIB, 2048 * _MIB
_SLOW_S = 1.0
"""Time of a write that reaches the disk above which trainings wait noticeably for it [s]."""
_MOST_AHEAD_S = 30.0
"""Largest difference between the clocks of two machines that readers of a shared ledger can do without [s]."""
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "9p", "fuse.sshfs", "afs")
_VOLATILE = ("tmpfs", "ramfs")


def existing(folder: Path) -> Path:
    """Return a folder, or the nearest parent that exists.

    Args:
        folder: The folder.
    """
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())


def file_system(folder: Path, mounts: str) -> str:
    """Return the type of the file system of a folder, such as ``ext4`` or ``nfs4``.

    Args:
        folder: A folder.
        mounts: Text of ``/proc/self/mountinfo`` (proc(5)).
    """
    found, deepest = "unknown", 0
    real = folder.resolve()
    for line in mounts.splitlines():
        fields, _, after = line.partition(" - ")
        point = Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), fields.split()[4]))
        if real.is_relative_to(point) and len(point.parts) >= deepest:  # a later mount covers an earlier one
            found, deepest = after.split()[0], len(point.parts)
    return found


def check_log_root(log_root: Path, mounts: str, free_bytes: int | None = None, slow_s: float = _SLOW_S) -> Finding:
    """Check that a file system can hold a ledger, and that its clock agrees with this machine's.

    Nothing remains of it.

    Args:
        log_root: Root of the ledger, which need not exist.
        mounts: Text of ``/proc/self/mountinfo``.
        free_bytes: Free space; by default that of the disk [B].
        slow_s: Time above which a write is slow [s].
    """
    folder = existing(log_root)
    elsewhere = "name another folder with --log_root"
    kind = file_system(folder, mounts)
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=folder) as scratch:
            began_s = time.monotonic()
            try_storage(Path(scratch))
            spent_s = time.monotonic() - began_s
            ahead_s = Path(scratch).stat().st_mtime - time.time()
    except OSError as error:
        return fail(f"{folder} ({kind}) can't hold a ledger: {error.strerror}", elsewhere)
    free = shutil.disk_usage(folder).free if free_bytes is None else free_bytes
    text = f"{folder} ({kind}), {free / _MIB / 1024:.1f} GiB free"
    if free < _LEAST_BYTES:
        return fail(f"{text}: a run needs 100 MiB", f"free some space, or {elsewhere}")
    if free < _LITTLE_BYTES:
        return warn(f"{text}: checkpoints of many runs need more", f"free some space, or {elsewhere}")
    if kind in _VOLATILE:
        return warn(f"{text}: it is in memory, and lost when the machine goes down", elsewhere)
    if spent_s > slow_s:
        return warn(f"{text}: a durable write takes {spent_s:.1f} s", f"{elsewhere}, on a faster disk")
    if abs(ahead_s) > _MOST_AHEAD_S:
        return warn(
            f"{text}: its clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine's: "
            "other machines may take a live run for a lost one",
            "synchronize the clocks of all machines, for example with chrony",
        )
    return ok(f"{text}{', a network file system' if kind in _REMOTE else ''}, durable write in {1e3 * spent_s:.0f} ms")


def check_caches(environ: Mapping[str, str]) -> Finding:
    """Check that compiled kernels can be kept.

    Args:
        environ: Environment variables.
    """
    try:
        kernels = require_kernel_cache(environ)
    except UserError as error:
        text, _, way_out = str(error).rpartition(": ")
        return fail(text, way_out)
    if obstacle := _obstacle(existing(kernels)):
        what = f"{kernels} can't be written ({obstacle}): start-ups take longer"
        return warn(what, "set WARP_CACHE_PATH to a writable folder")
    return ok(str(kernels))


def check_temporary(usual: Path | None, memory: Path = Path("/dev/shm"), free_bytes: int | None = None) -> Finding:
    """Check the folders for temporary files, on disk and in memory.

    Args:
        usual: The folder for temporary files; ``None`` if there is none that can be written.
        memory: The folder in memory.
        free_bytes: Free space in ``usual``; by default that of the disk [B].
    """
    if usual is None:
        return fail("no folder for temporary files can be written", "set TMPDIR to a writable folder")
    free = shutil.disk_usage(usual).free if free_bytes is None else free_bytes
    if free < _LEAST_BYTES:
        return warn(f"{usual} has {free / _MIB:.0f} MiB free", "free some space, or set TMPDIR")
    if error := _obstacle(memory):
        return warn(
            f"{memory} can't be written ({error}): trainings with --nproc on several GPUs may not start",
            "start the container with --shm-size 1g or --ipc host",
        )
    return ok(f"{usual} and {memory}")


def _obstacle(folder: Path) -> str | None:
    """Return why a folder can't be written; ``None`` if it can."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return error.strerror or str(error)
    return None


def temporary_folder() -> Path | None:
    """Return Python's folder for temporary files; ``None`` if none can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return None
