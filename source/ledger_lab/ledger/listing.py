"""Finds journals, and notes the size of each file."""

from __future__ import annotations

import errno
import os
import stat
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


@dataclass(frozen=True)
class Listing:
    """The journals below a root, compressed or not."""

    directories: dict[str, dict[str, int | LedgerDamageError]] = field(default_factory=dict)
    """Sizes of the journals [B], or why they can't be read; by directory, in the order of the paths, and by name."""
    damage: list[LedgerDamageError] = field(default_factory=list)
    """Directories that can't be read. They are not left out silently."""

    @property
    def size(self) -> int:
        """Size of all journals that can be read [B]."""
        sizes = (size for names in self.directories.values() for size in names.values())
        return sum(size for size in sizes if isinstance(size, int))


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
            below = unless_stale(partial(_list, directory, listing))
            if below and is_link and not Path(directory).resolve().is_relative_to(root.resolve()):
                listing.damage.append(LedgerDamageError(Path(directory), 1, _ELSEWHERE))
            else:
                waiting += reversed(below)
        except FileNotFoundError:
            continue
        except OSError as error:
            listing.damage.append(LedgerDamageError.unreadable(Path(error.filename or directory), error))
    return listing


def list_directory(directory: Path) -> Listing:
    """List the journals that are directly in a directory.

    Args:
        directory: The directory; it need not exist.
    """
    listing = Listing()
    try:
        unless_stale(partial(_list, os.fspath(directory), listing))
    except FileNotFoundError:
        pass
    except OSError as error:
        listing.damage.append(LedgerDamageError.unreadable(directory, error))
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


def _list(directory: str, listing: Listing) -> list[tuple[str, bool]]:
    """Add the journals of one directory to a listing, and return the directories in it, sorted, and which are links.

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
                    continue
            except OSError as error:
                if error.errno != errno.ELOOP:  # a link that leads to itself leads to no directory
                    listing.damage.append(LedgerDamageError.unreadable(Path(entry.path), error))
                    continue
            if is_journal(entry.name):
                names.append(entry.name)
    found = {name: size for name in sorted(names) if (size := _size(os.path.join(directory, name))) is not None}
    if found:
        listing.directories[directory] = found
    return sorted(below)


def _size(path: str) -> int | LedgerDamageError | None:
    """Return the size of a journal, ``None`` if the file no longer exists, or the damage if it can't be read."""
    try:
        status = unless_stale(partial(os.stat, path))
    except FileNotFoundError:
        if os.path.islink(path):
            return LedgerDamageError(Path(path), 1, "it is a link to a file that does not exist")
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return LedgerDamageError(Path(path), 1, NO_FILE)
        return LedgerDamageError.unreadable(Path(path), error)
    return status.st_size if stat.S_ISREG(status.st_mode) else LedgerDamageError(Path(path), 1, NO_FILE)


def is_journal(name: str) -> bool:
    """Tell by its name whether a file is a journal, compressed or not."""
    return name.startswith("journal-") and name.removesuffix(COMPRESSED).endswith(".jsonl")
