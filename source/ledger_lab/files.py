"""Atomic file writes, and hashes of files."""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger_lab.errors import UserError

_LEAST_FREE_BYTES = 1 << 20
"""Free space below which a failed save is reported as a full disk [B], because torch does not report the cause."""


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
        OSError: If the disk is full.
    """
    owner = f".{os.getpid()}" if shared else ""
    unfinished = path.with_name(f"{path.name}{owner}.partial")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        full = isinstance(error, RuntimeError) and shutil.disk_usage(path.parent).free < _LEAST_FREE_BYTES
        unfinished.unlink(missing_ok=True)
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Synchronize a new file's directory entry, so that it survives a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
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
