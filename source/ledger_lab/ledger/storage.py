"""Whether a file system can hold a ledger. Object stores that are mounted as file systems often can't."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.files import sync_folder

_FIRST, _SECOND = b"first row\n", b"second row\n"


def require_storage(folder: Path, named: str) -> None:
    """Refuse a folder that can't hold journals, before a run costs anything. This takes a few milliseconds.

    Args:
        folder: The folder.
        named: What the user named.

    Raises:
        UserError: If its file system lacks something that journals need; the message names it. An empty folder is
            removed.
    """
    try:
        try_storage(folder)
    except OSError as error:
        with suppress(OSError):  # it holds something
            folder.rmdir()
        raise UserError(f"{named} can't hold a ledger: {error.strerror}: name a folder on another disk") from error


def try_storage(folder: Path) -> None:
    """Do with a file what a journal does, and replace another file. Nothing remains of it.

    Args:
        folder: The folder.

    Raises:
        OSError: If something fails; its message says what.
    """
    path = folder / f".probe-{secrets.token_hex(8)}"
    old = path.with_name(f"{path.name}-old")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    step = "create a file"
    try:
        file = os.open(path, flags, 0o600)
        try:
            step = "create a file only once"
            with suppress(FileExistsError):
                os.close(os.open(path, flags, 0o600))
                raise OSError(0, "two processes could create the same file")
            step = "append to a file"
            os.pwrite(file, _FIRST, 0)
            os.fsync(file)
            os.pwrite(file, _SECOND, len(_FIRST))
            os.fsync(file)
        finally:
            os.close(file)
        step = "replace a file"
        old.write_bytes(b"old")
        path.replace(old)
        step = "read what was written"
        if old.read_bytes() != _FIRST + _SECOND:
            raise OSError(0, "something else is in the file")
        step = "synchronize a folder"
        sync_folder(folder)
    except OSError as error:
        raise OSError(error.errno, f"it can't {step}: {error.strerror}") from error
    finally:
        for each in (path, old):
            with suppress(OSError):
                each.unlink(missing_ok=True)
