"""Finds journals, and notes the size of each file."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from ledger_lab.errors import UserError
from ledger_lab.files import unless_stale

COMPRESSED = ".gz"
"""Suffix of a journal that was compressed with gzip after its last row."""

NO_FILE = "it is no file: remove it, or move it out of the ledger"
"""What is wrong with a pipe, a device or a link that has the name of a journal."""

_ELSEWHERE = (
    "it is a link to a folder outside of the ledger, whose folders are not searched: "
    "move them into the ledger, or remove the link"
)
"""What is wrong with a link that leads to more than a run: it may lead to a whole disk."""

_LONGEST_SHOWN = 500
"""Longest path that a message shows as a whole [characters]."""


class LedgerDamageError(UserError):
    """A journal holds something that its writer cannot have written, or can't be read."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        """Build the error.

        Args:
            path: The journal, or a directory.
            line: Line number, from 1.
            reason: Description of the damage.
        """
        shown = os.fspath(path)
        shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
        super().__init__(f"{shown}:{line}: {reason}")
        self.path, self.line, self.reason = path, line, reason

    def __reduce__(self) -> tuple[type[Self], tuple[Path, int, str]]:
        """Restore the same error after a transfer from another process."""
        return type(self), (self.path, self.line, self.reason)

    @classmethod
    def unreadable(cls, path: Path, error: OSError) -> Self:
        """Return the error for a file or a directory that the system does not let us read."""
        return cls(path, 1, f"cannot be read: {error.strerror}: make it readable, or move it out of the ledger")


Journals = dict[str, int]
"""The journals of a directory by their names, with the size of each file [B]; 0 if the file tells none."""


@dataclass(frozen=True)
class Listing:
    """The journals below a root."""

    directories: dict[str, Journals] = field(default_factory=dict)
    """By directory, in the order of the paths."""
    damage: list[LedgerDamageError] = field(default_factory=list)
    """Directories that can't be read. They are not left out silently."""


def list_journals(root: Path) -> Listing:
    """List all journals below a root, which need not exist.

    Other processes may create and delete files and directories at the same time. A directory that several links lead to
    is listed once. Of a directory outside of the root that a link leads to, only its own journals are listed.

    Args:
        root: The root.
    """
    listing = Listing()
    seen: set[tuple[int, int]] = set()
    waiting = [(os.fspath(root), False)]
    while waiting:
        directory, is_link = waiting.pop()
        try:
            status = os.stat(directory)
            if (identity := (status.st_dev, status.st_ino)) in seen:
                continue
            seen.add(identity)
            journals, below = unless_stale(partial(list_directory, directory, listing.damage))
        except FileNotFoundError:
            continue
        except OSError as error:
            listing.damage.append(LedgerDamageError.unreadable(Path(error.filename or directory), error))
            continue
        if journals:
            listing.directories[directory] = journals
        if below and is_link and not Path(directory).resolve().is_relative_to(root.resolve()):
            listing.damage.append(LedgerDamageError(Path(directory), 1, _ELSEWHERE))
        else:
            waiting += reversed(below)
    return listing


def find_journals(root: Path) -> list[Path]:
    """Return every journal under a directory, compressed or not, in a stable order.

    Args:
        root: The directory; it need not exist.

    Raises:
        LedgerDamageError: If a directory can't be read.
    """
    listing = list_journals(root)
    if listing.damage:
        raise listing.damage[0]
    return sorted(Path(directory, name) for directory, names in listing.directories.items() for name in names)


def list_directory(directory: str, damage: list[LedgerDamageError]) -> tuple[Journals, list[tuple[str, bool]]]:
    """List the journals of one directory. A compressed journal doesn't count beside the journal that gzip reads.

    Args:
        directory: The directory.
        damage: Directories in it that can't be read are added here.

    Returns:
        The journals; and the directories in it, sorted, and whether they are links.

    Raises:
        OSError: If the directory can't be read.
    """
    below: list[tuple[str, bool]] = []
    names: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                if entry.is_dir():
                    below.append((entry.path, entry.is_symlink()))
                elif is_journal(entry.name):
                    names.append(entry.name)
            except OSError as error:
                if is_journal(entry.name):
                    names.append(entry.name)
                elif error.errno != errno.ELOOP:  # a link that leads to itself leads to no directory
                    damage.append(LedgerDamageError.unreadable(Path(entry.path), error))
    kept = (
        name for name in sorted(names) if not name.endswith(COMPRESSED) or name.removesuffix(COMPRESSED) not in names
    )
    return {name: _size(os.path.join(directory, name)) for name in kept}, sorted(below)


def _size(path: str) -> int:
    """Return the size of a file [B]; 0 if it tells none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def is_journal(name: str) -> bool:
    """Tell by its name whether a file is a journal, compressed or not."""
    return name.startswith("journal-") and name.removesuffix(COMPRESSED).endswith(".jsonl")
