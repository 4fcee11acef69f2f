"""Cache of what earlier readers found out about the directories of a ledger; it counts only while nothing has changed.

An entry counts while name, inode, size, modification time and change time of each journal of a directory are the same
as when every line was verified; no program can set the change time. An entry holds sums and positions of rows, never
rows: each row is read from its journal, and its hash is verified. ``scripts/verify_ledger.py`` does not use the cache.
There is one file per ledger root in ``$XDG_CACHE_HOME/ledger_lab`` (by default ``~/.cache/ledger_lab``), outside of any
ledger. It may be deleted at any time.

The file begins with the digests of each directory, in JSON. A table of all directories follows, and a last line of
fixed length with the size and the checksum of the table. The table has the checksums of the digests, which are read
only where they are needed.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson

from ledger_lab.ledger.digest import Digest
from ledger_lab.ledger.holes import ARRIVES_WITHIN_NS
from ledger_lab.ledger.listing import Stamp

SETTLED_NS = 2_000_000_000
"""Minimum age of a journal's last change before its digest is cached [ns]. Within one tick of the file system's clock,
two changes can have the same time."""

_END = b"%016d %s\n"
_END_LENGTH = 16 + 1 + 64 + 1

_UNFINISHED = ".digests-"
"""Beginning of the names of files that are being written."""

_ABANDONED_S = 3600.0
"""Age from which such a file is abandoned: to write one takes seconds [s]."""

_CODE = ("ledger", "costs")
"""Packages whose code decides what an entry holds."""


class Gist(NamedTuple):
    """What a report needs of a run that it does not show."""

    run_id: str
    cohort: str | None
    declared_at: str
    """When the run was declared, ISO 8601."""
    rows: int
    """Rows of all its attempts."""


class Entry(NamedTuple):
    """What the cache holds about the journals of a directory."""

    stamps: dict[str, Stamp]
    """Stamps of its journals when they were read, by name."""
    gist: Gist | None
    """The run that all these journals together make; ``None`` if they make none, or it is not known."""
    read: Callable[[], bytes]
    """Reads the digests of the journals, as JSON; empty if they are damaged, or can't be read any more."""

    def digests(self) -> dict[str, tuple[Stamp, Digest]]:
        """Return the digests with their stamps, by the names of the journals; none if they are damaged."""
        try:
            found = [Digest.from_data(data) for data in orjson.loads(self.read())]
        except (ValueError, TypeError, KeyError):
            return {}
        return {name: (stamp, digest) for (name, stamp), digest in zip(self.stamps.items(), found, strict=True)}


class Cache:
    """The cache of one ledger, as it was when the reader began."""

    def __init__(self, root: Path) -> None:
        """Read the table of a cache; it is empty if the file is missing, damaged, or somebody else could write it.

        Args:
            root: Root of the ledger.
        """
        self._root = os.fspath(root)
        self._table: dict[str, list[Any]] = {}
        with contextlib.suppress(OSError, ValueError):  # the journals still hold everything
            self._file = os.open(cache_file(root), os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._file)
            self._table = self._read_table()

    def _read_table(self) -> dict[str, list[Any]]:
        """Return the table of the open file.

        Raises:
            OSError: If it can't be read.
            ValueError: If it is damaged.
        """
        status = os.fstat(self._file)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return {}
        end = os.pread(self._file, _END_LENGTH, status.st_size - _END_LENGTH)
        size = int(end[:16])
        if size > status.st_size:
            return {}  # a damaged size may exceed all memory
        table = _pread(self._file, size, status.st_size - _END_LENGTH - size)
        if end != _end(table):
            return {}
        found: dict[str, list[Any]] = orjson.loads(table)
        return found

    def entry(self, directory: str) -> Entry | None:
        """Return the entry of a directory.

        Args:
            directory: Its path, which begins with that of the root.
        """
        known = self._table.get(directory.removeprefix(self._root))
        if known is None:
            return None
        stamps, gist, *place = known

        def read() -> bytes:
            offset, length, checksum = place
            try:
                digests = _pread(self._file, length, offset)
            except OSError:  # a reader on another host has replaced the file
                return b""
            return digests if sha256(digests).hexdigest() == checksum else b""

        return Entry({name: Stamp(*stamp) for name, stamp in stamps.items()}, gist and Gist(*gist), read)


def cache_file(root: Path) -> Path:
    """Return the path of the cache file of a ledger.

    Args:
        root: Root of the ledger.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "ledger_lab" / f"digests-{sha256(os.fsencode(root.resolve())).hexdigest()[:32]}"


def keep(root: Path, entries: Iterable[tuple[str, Entry]]) -> None:
    """Replace the cache of a ledger.

    The file is replaced as a whole: concurrent readers see the old file or the new file. If it can't be written, the
    next reader only takes longer.

    Args:
        root: Root of the ledger.
        entries: The entries by directory. Journals that have just changed are left out by :func:`settled`.
    """
    if not (target := cache_file(root)).is_absolute():
        return  # nobody's home is known
    with contextlib.suppress(OSError):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(target.parent)
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=_UNFINISHED)
        try:
            with os.fdopen(descriptor, "wb") as file:
                table = orjson.dumps(dict(_written(os.fspath(root), entries, file)), default=list)  # named tuples
                file.write(table + _end(table))
            os.replace(name, target)
        except BaseException:  # Ctrl-C is one, too
            os.unlink(name)
            raise


def _remove_abandoned(folder: Path) -> None:
    """Remove the unfinished files of readers that were killed.

    Raises:
        OSError: If one can't be removed.
    """
    for unfinished in folder.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(FileNotFoundError):  # another reader removes them at the same time
            if time.time() - unfinished.stat().st_mtime > _ABANDONED_S:
                unfinished.unlink()


def settled(found: dict[str, tuple[Stamp, Digest]], gist: Gist | None, now_ns: int) -> Entry:
    """Return the entry of a directory that was read, without the journals that have just changed.

    Args:
        found: Stamps and digests of its journals, by name.
        gist: The run that all of them make.
        now_ns: The time [ns].
    """
    kept = {
        name: (stamp, digest)
        for name, (stamp, digest) in found.items()
        # Whether zeros in a journal count as damage depends on its age.
        if now_ns - max(stamp.mtime_ns, stamp.ctime_ns) > (ARRIVES_WITHIN_NS if digest.torn_bytes else SETTLED_NS)
    }
    stamps = {name: stamp for name, (stamp, _) in kept.items()}
    digests = [digest for _, digest in kept.values()]

    def encoded() -> bytes:
        try:
            return orjson.dumps(digests, default=list)
        except TypeError:  # sums of a forged journal that no integer of 64 bits holds: not kept
            return b""

    return Entry(stamps, gist if len(kept) == len(found) else None, encoded)


def _written(root: str, entries: Iterable[tuple[str, Entry]], file: IO[bytes]) -> Iterator[tuple[str, list[Any]]]:
    """Write the digests of directories, and yield the lines of the table."""
    offset = 0
    for directory, entry in entries:
        if entry.stamps and _is_utf8("".join((directory, *entry.stamps))) and (digests := entry.read()):
            file.write(digests)
            checksum = sha256(digests).hexdigest()
            yield directory.removeprefix(root), [entry.stamps, entry.gist, offset, len(digests), checksum]
            offset += len(digests)


def _pread(file: int, length: int, offset: int) -> bytes:
    """Return bytes of a file; the system returns at most 2 GiB at once."""
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(file, length, offset)):
        parts.append(part)
        length, offset = length - len(part), offset + len(part)
    return b"".join(parts)


def _is_utf8(text: str) -> bool:
    """Tell whether a path is UTF-8, as JSON must be; journals with other paths are read again each time."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _end(table: bytes) -> bytes:
    """Return the last line of a cache file: the size of its table, and a checksum of the table and our code."""
    return _END % (len(table), sha256(_code() + table).hexdigest().encode())


@cache
def _code() -> bytes:
    """Return a hash of the code that makes digests and runs from journals, so that no other version reads an entry.

    Raises:
        OSError: If the source can't be read.
    """
    package = Path(__file__).parents[1]
    sources = (path.read_bytes() for name in _CODE for path in sorted((package / name).glob("*.py")))
    return sha256(b"\0".join(sources)).digest()
