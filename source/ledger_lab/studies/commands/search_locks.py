"""Locks of a search: one program works on it, and a training that outlives its program is waited for."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from ledger_lab.errors import UserError
from ledger_lab.files import file_lock, make_folder
from ledger_lab.studies.commands.search_arguments import search_folder
from ledger_lab.studies.search.declaration import SearchDeclaration


@contextmanager
def only_program(declaration: SearchDeclaration, log_root: Path) -> Iterator[Path]:
    """Keep other programs from working on the same search at the same time.

    Args:
        declaration: The search.
        log_root: Root of the ledger.

    Yields:
        The folder of the search.

    Raises:
        UserError: If another program works on it, or the folder can't be written to.
    """
    folder = search_folder(declaration, log_root)
    make_folder(log_root.resolve())
    make_folder(folder, root=log_root.resolve())
    with file_lock(folder / "lock") as (_, is_free):
        if not is_free:
            raise UserError(f"search {declaration.name}: another search.py works on it: wait for it, or end it first")
        yield folder


@contextmanager
def lock_of_trainings(folder: Path, console: Console) -> Iterator[int]:
    """Wait until no training on this machine goes on that an earlier program had started, and then keep a lock.

    If this program is killed, its training takes a while to end, and keeps the lock until then. So a training is not
    started twice, although the ledger shows it only when it has declared its run.

    Args:
        folder: Folder of the search.
        console: Where to print that it waits.

    Yields:
        Descriptor of the lock, which trainings keep open.
    """
    with file_lock(folder / "trainings.lock") as (descriptor, is_free):
        if not is_free:
            console.print("waiting: a training that an earlier search.py started is under way", soft_wrap=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
