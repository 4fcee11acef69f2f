"""Atomic file writes, locks, hashes of files, and the places of LedgerLab's own data files."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ledger_lab.errors import UserError

_PROBE_BYTES = 1 << 20
"""Bytes that are written after a failed save to learn the cause [B], because torch does not report it."""


@contextmanager
def whole_file(path: Path, *, shared: bool = False, root: Path | None = None) -> Iterator[Path]:
    """Write a file so that it appears under its name only when it is complete on disk.

    It is written in a new folder that no other user may enter, so nobody can put a link to another file in its place.

    Args:
        path: The file.
        shared: Whether other processes may write the same file at the same time: each then writes in a folder of its
            own. Otherwise, the next process removes what a killed one has left, so such folders do not pile up.
        root: Folder below which other people may have put links: none of them is followed, and missing folders are
            created. ``None`` if the user named the folder of the file.

    Yields:
        Path to write to, for this process and its children. Its folder is for this file only.

    Raises:
        OSError: If the disk can't be written. It names the file.
        UserError: If there is a link between the root and the file.
    """
    owner = f".{secrets.token_hex(8)}" if shared else ""  # processes of two hosts may have the same id
    name = f"{path.name}{owner}.partial"
    parent = unfinished = None
    try:
        parent = _open_folder(path.parent, root)
        remove(name, parent)
        os.mkdir(name, 0o700, dir_fd=parent)
        folder = os.open(name, _FOLDER, dir_fd=parent)
        try:
            # Through the descriptor: others may rename the folder of the file, and put another one in its place.
            unfinished = Path(f"/proc/{os.getpid()}/fd/{folder}", path.name)
            yield unfinished
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(path.name, path.name, src_dir_fd=folder, dst_dir_fd=parent)
        except RuntimeError as error:
            if unfinished is not None and (cause := _fault_of_disk(unfinished)) is not None:
                raise OSError(cause.errno, cause.strerror) from error
            raise
        finally:
            os.close(folder)
            with suppress(OSError):  # a disk that fails must not hide the error
                remove(name, parent)
        _synchronize(parent)
    except OSError as error:
        if error.errno is not None and error.filename in (None, path.name, name, str(unfinished)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        if parent is not None:
            os.close(parent)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that open a folder, and no link to one."""


def _open_folder(folder: Path, root: Path | None) -> int:
    """Open a folder; with a root, create what is missing below it, and follow no link below it.

    Returns:
        A descriptor, which the caller closes.

    Raises:
        OSError: If it can't be opened or created.
        UserError: If there is a link below the root.
    """
    at = os.open(folder if root is None else root, _FOLDER & ~os.O_NOFOLLOW)
    if root is None:
        return at
    path = root
    for part in folder.relative_to(root).parts:
        path /= part
        try:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            below = os.open(part, _FOLDER, dir_fd=at)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UserError(f"{path} is a link or a file, and must be a folder: remove it") from error
            raise naming(error, path) from None
        finally:
            os.close(at)
        at = below
    return at


def remove(path: str | Path, folder: int | None = None) -> None:
    """Remove a file, a link or a folder with all its content, if it exists. No link is followed.

    Args:
        path: What to remove.
        folder: Descriptor of the folder that the path begins at; ``None`` for the working folder.

    Raises:
        OSError: If it can't be removed, or is a device or a pipe.
    """
    try:
        mode = os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(path, dir_fd=folder)
    elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        os.unlink(path, dir_fd=folder)
    else:
        raise FileExistsError(errno.EEXIST, "it is a device or a pipe", str(path))


def new_file(path: Path, root: Path | None = None) -> IO[bytes]:
    """Create a file that is read while it is written, such as a log. An older file or link of the name is removed.

    Args:
        path: The file.
        root: See :func:`whole_file`.

    Returns:
        The file, unbuffered.

    Raises:
        OSError: If it can't be created. It names the file.
        UserError: If there is a link between the root and the file.
    """
    return _opened(path, root, os.O_EXCL)


def appended_file(path: Path, root: Path | None = None) -> IO[bytes]:
    """Open a file to write at its end, unless it is a link; create it if it is missing.

    Args:
        path: The file.
        root: See :func:`whole_file`.

    Returns:
        The file, unbuffered.

    Raises:
        OSError: If it can't be opened. It names the file.
        UserError: If there is a link between the root and the file.
    """
    return _opened(path, root, os.O_APPEND)


def _opened(path: Path, root: Path | None, how: int) -> IO[bytes]:
    """Open a file without following a link."""
    try:
        folder = _open_folder(path.parent, root)
        try:
            if how == os.O_EXCL:
                remove(path.name, folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how
            return os.fdopen(os.open(path.name, flags, 0o644, dir_fd=folder), "wb", buffering=0)
        finally:
            os.close(folder)
    except OSError as error:
        if error.filename in (None, path.name):
            error.filename = str(path)
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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
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
        _synchronize(descriptor)
    finally:
        os.close(descriptor)


def _synchronize(folder: int) -> None:
    """Synchronize the entries of a folder by its descriptor, where the file system can."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def unused_path(path: Path) -> Path:
    """Return an unused path: the given path, or the first unused of ``name-2``, ``name-3`` and so on.

    Args:
        path: The wanted path.
    """
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain([path], numbered) if not os.path.lexists(candidate))


def make_folder(folder: Path, named: str | None = None, root: Path | None = None) -> None:
    """Create a folder, unless it exists, and check that files can be written into it.

    Args:
        folder: The folder.
        named: Its name in an error, if the user named it otherwise.
        root: See :func:`whole_file`.

    Raises:
        UserError: If it can't be created or written to, or there is a link between the root and the folder.
    """
    try:
        if root is None:
            folder.mkdir(parents=True, exist_ok=True)
        else:
            os.close(_open_folder(folder, root))
    except OSError as error:
        raise UserError(f"cannot write to {named or folder}: {error.strerror}") from error
    if not os.access(folder, os.W_OK):
        raise UserError(f"cannot write to {named or folder}: permission denied")


_PACKAGE = Path(__file__).resolve().parent


def panel_files() -> list[Path]:
    """Return the files of the panels that come with the tasks."""
    return sorted((_PACKAGE / "tasks").glob("*/panels/*.toml"))


def times_file() -> Path:
    """Return the file with the median time to target of each task, which ``tools/records.py`` writes from records."""
    return _PACKAGE / "tasks" / "times.toml"


def config_root() -> Path:
    """Return the folder with prices, studies, searches and clusters, which a checkout also shows as ``config/``."""
    return _PACKAGE / "config"
