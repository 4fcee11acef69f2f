"""Atomic file writes, locks, and hashes of files."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ledger_lab.errors import UserError

_PROBE_BYTES = 1 << 20
"""Bytes that are written after a failed save to learn the cause [B], because torch does not report it."""

_SCRATCH_BYTES = 1 << 26
"""Free space that a folder for scratch files should have [B]."""


@contextmanager
def whole_file(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """Write a file so that it appears under its name only when it is complete on disk.

    Args:
        path: The file.
        shared: Whether other processes may write the same file at the same time: each then writes a temporary file of
            its own. Otherwise, the next process overwrites the unfinished file of a killed one, so such files do not
            pile up.

    Yields:
        Path to write to.

    Raises:
        OSError: If the disk can't be written. It names the file.
    """
    owner = f".{secrets.token_hex(8)}" if shared else ""  # processes of two hosts may have the same id
    unfinished = path.with_name(f"{path.name}{owner}.partial")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        cause = _fault_of_disk(unfinished) if isinstance(error, RuntimeError) else None
        with suppress(OSError):  # a disk that fails must not hide the error
            unfinished.unlink(missing_ok=True)
        if cause is not None:
            raise OSError(cause.errno, cause.strerror, str(path)) from error
        if isinstance(error, OSError):
            naming(error, path)
        raise


def _fault_of_disk(unfinished: Path) -> OSError | None:
    """Return the error of the system when more is written to a file; ``None`` if the disk takes it."""
    try:
        with unfinished.open("ab") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error
    return None


def unless_stale[T](read: Callable[[], T]) -> T:
    """Call a function that reads a file or a folder; call it again if another host has just removed or replaced it.

    Args:
        read: The function. It may raise ESTALE, the error of a network file system for a file that is gone.

    Returns:
        Its result.
    """
    try:
        return read()
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
    return read()


def naming(error: OSError, path: Path) -> OSError:
    """Return an error of the system with the file that it is about; the system names no open file.

    Args:
        error: The error.
        path: The file.
    """
    if error.errno is not None and error.filename is None:
        error.filename = str(path)
    return error


def scratch_folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Create a folder for scratch files that only this user may enter; where the temporary folder is full, in memory.

    Args:
        prefix: What its name begins with.

    Raises:
        OSError: If no folder can be written.
    """
    memory = "/dev/shm"
    try:
        usual = tempfile.gettempdir()
        full = shutil.disk_usage(usual).free < _SCRATCH_BYTES
    except OSError:  # no temporary folder can be written
        full = True
    return tempfile.TemporaryDirectory(prefix=prefix, dir=memory if full and os.access(memory, os.W_OK) else None)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class NoLocksError(UserError):
    """A file system has no locks, as some that many machines share."""


@contextmanager
def file_lock(path: Path) -> Iterator[tuple[int, bool]]:
    """Create a file, and lock it if no process has it locked. Processes that inherit its descriptor keep the lock, too.

    Args:
        path: The file; its folder exists. It is left behind, because a lock on a removed file would protect nothing.

    Yields:
        Its descriptor, and whether it is locked now.

    Raises:
        NoLocksError: If its file system has no locks.
        UserError: If the file can't be created.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UserError(f"cannot write to {path.parent}: {error.strerror}: correct --log_root") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        except BlockingIOError:
            is_locked = False
        except OSError as error:
            raise NoLocksError(
                f"cannot lock {path}: {error.strerror}: use a log root on a file system with locks"
            ) from error
        yield descriptor, is_locked
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Synchronize a new file's directory entry, so that it survives a power failure.

    Some network file systems can't do this, because their server has done it before a call returns.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def unused_path(path: Path) -> Path:
    """Return an unused path: the given path, or the first unused of ``name-2``, ``name-3`` and so on.

    Args:
        path: The wanted path.
    """
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain([path], numbered) if not candidate.exists())


def make_folder(folder: Path, named: str | None = None) -> None:
    """Create a folder, unless it exists, and check that files can be written into it.

    Args:
        folder: The folder.
        named: Its name in an error, if the user named it otherwise.

    Raises:
        UserError: If it can't be created or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {named or folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise UserError(f"cannot write to {named or folder}: permission denied")
