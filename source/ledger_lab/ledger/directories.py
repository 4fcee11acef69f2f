"""The journals of each directory of a ledger, digested on all cores, and only where they have changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path

from ledger_lab.files import unless_stale
from ledger_lab.ledger.cache import Cache, Entry, settled
from ledger_lab.ledger.content import JournalContent
from ledger_lab.ledger.cores import map_on_cores
from ledger_lab.ledger.digest import Digest, digest_journal
from ledger_lab.ledger.listing import COMPRESSED, LedgerDamageError, Listing, Stamp, list_directory

PARALLEL_FROM = 32 << 20
"""Total size of journals above which several processes read them [B]."""

_BATCH = 8 << 20
"""Total size of journals per batch of a process [B]."""

OnProgress = Callable[[int, int], None]
"""Called with the bytes of journals that were read, and the bytes to read in all."""

Found = tuple[Stamp, Digest] | LedgerDamageError
"""Digest of a journal with its stamp, or its damage."""


class Directory:
    """The journals of one directory."""

    def __init__(self, name: str, found: dict[str, Found] | Entry) -> None:
        """Hold what was found, or the entry of the cache that counts for all journals.

        Args:
            name: The directory, as it was listed.
            found: Digests and damage of its journals by name, or the entry.
        """
        self.name, self.path = name, Path(name)
        self.entry = found if isinstance(found, Entry) else None
        """The entry of the cache that counts for all its journals."""
        self.gist = self.entry.gist if self.entry else None
        """The run that its journals make, as far as it is known."""
        self.is_checked = self.gist is not None
        """Whether all references between its journals were checked; what another host has just written may be late."""
        self.damage: list[LedgerDamageError] = []
        """Damage of its journals; the run in it is left out."""
        if not isinstance(found, Entry):
            self.found = found
            self.damage += (each for each in _without_drafts(found).values() if isinstance(each, LedgerDamageError))

    @cached_property
    def found(self) -> dict[str, Found]:
        """Digest or damage of each journal, by name. Those of the cache are read on demand."""
        assert self.entry is not None
        return {**self.entry.digests()} or read_directory(self.path).found

    @cached_property
    def journals(self) -> list[JournalContent]:
        """Its sound journals."""
        return [
            JournalContent.stored(self.path / name, found[1])
            for name, found in _without_drafts(self.found).items()
            if not isinstance(found, LedgerDamageError)
        ]

    def to_keep(self, now_ns: int) -> Entry:
        """Return what the cache should hold about it.

        Args:
            now_ns: The time [ns].
        """
        if self.entry is not None:
            return self.entry
        sound = {name: found for name, found in self.found.items() if not isinstance(found, LedgerDamageError)}
        return settled(sound, self.gist if len(sound) == len(self.found) else None, now_ns)


def read_directory(path: Path) -> Directory:
    """Read the journals of one directory.

    Args:
        path: The directory.
    """
    listing = list_directory(path)
    directories, _ = digest_directories(listing)
    directory = directories[0] if directories else Directory(os.fspath(path), {})
    directory.damage += listing.damage
    return directory


def digest_directories(
    listing: Listing,
    cache: Cache | None = None,
    on_progress: OnProgress | None = None,
    *,
    thorough: bool = False,
    earlier: Mapping[str, Directory] | None = None,
) -> tuple[list[Directory], int]:
    """Verify and digest many journals.

    Args:
        listing: The journals.
        cache: Digests of unchanged journals; ``None`` reads every journal.
        on_progress: Called with the progress.
        thorough: Whether to parse every row, see :func:`ledger_lab.ledger.digest.digest_journal`.
        earlier: The same directories as they were read before, by name: of a journal that has only grown, the new rows
            are read.

    Returns:
        The directories, without journals that were deleted meanwhile; and the size of the journals that were read [B].
    """
    found: dict[str, dict[str, Found] | Entry] = {}
    sizes: dict[tuple[str, str], int] = {}
    grown: dict[tuple[str, str], Digest] = {}
    for directory, listed in listing.directories.items():
        entry = cache.entry(directory) if cache is not None else None
        if entry is not None and entry.gist is not None and entry.stamps == listed:
            found[directory] = entry
            continue
        known: dict[str, Found] = {**entry.digests()} if entry is not None else {}
        if earlier is not None and directory in earlier:
            known = earlier[directory].found
        own: dict[str, Found] = {}
        for name, stamp in listed.items():
            if isinstance(stamp, LedgerDamageError):
                own[name] = stamp
                continue
            before = known.get(name)
            if isinstance(before, tuple) and before[0] == stamp:
                own[name] = before
                continue
            sizes[directory, name] = stamp.size
            if earlier is not None and isinstance(before, tuple) and _has_grown(name, before, stamp):
                grown[directory, name] = before[1]
                sizes[directory, name] -= before[1].size
        found[directory] = own
    for (directory, name), digested in _digest_new(sizes, grown, on_progress, thorough=thorough):
        own_found = found[directory]
        assert not isinstance(own_found, Entry)
        own_found[name] = digested
    directories = [
        Directory(name, each if isinstance(each, Entry) else dict(sorted(each.items())))
        for name, each in found.items()
        if each
    ]
    return directories, sum(sizes.values())


def _without_drafts(found: dict[str, Found]) -> dict[str, Found]:
    """Leave compressed journals out that lie unfinished, or as the same rows, beside the journal that gzip reads."""
    kept = dict(found)
    for name, each in found.items():
        plain = found.get(name.removesuffix(COMPRESSED)) if name.endswith(COMPRESSED) else None
        if isinstance(plain, tuple) and (isinstance(each, LedgerDamageError) or _end(each) == _end(plain)):
            del kept[name]
    return kept


def _end(found: tuple[Stamp, Digest]) -> tuple[int, str]:
    """Return the number of rows of a journal, and its last hash, which covers all of them."""
    return found[1].rows, found[1].last_hash


def _has_grown(name: str, before: tuple[Stamp, Digest], stamp: Stamp) -> bool:
    """Tell whether a journal is the same file as before, with more in it; a compressed one is read as a whole."""
    return not name.endswith(COMPRESSED) and before[0].inode == stamp.inode and stamp.size > before[0].size


def _digest_new(
    sizes: dict[tuple[str, str], int],
    grown: dict[tuple[str, str], Digest],
    on_progress: OnProgress | None,
    *,
    thorough: bool,
) -> Iterator[tuple[tuple[str, str], Found]]:
    """Yield the digests of journals of known sizes, by directory and name; those that no longer exist are left out."""
    total, done = sum(sizes.values()), 0
    batches = list(_batches(sizes))
    digested = map_on_cores(partial(_digest_batch, thorough, grown), batches, parallel=total >= PARALLEL_FROM)
    for batch, results in zip(batches, digested, strict=True):
        for journal, result in zip(batch, results, strict=True):
            if result is not None:
                yield journal, result
            done += sizes[journal]
        if on_progress is not None:
            on_progress(done, total)


def _batches(sizes: dict[tuple[str, str], int]) -> Iterator[list[tuple[str, str]]]:
    """Yield batches of journals, the largest journals first."""
    batch: list[tuple[str, str]] = []
    filled = 0
    for journal, size in sorted(sizes.items(), key=lambda item: -item[1]):
        batch.append(journal)
        filled += size
        if filled >= _BATCH:
            yield batch
            batch, filled = [], 0
    if batch:
        yield batch


def _digest(path: Path, thorough: bool, earlier: Digest | None) -> tuple[Stamp, Digest]:
    """Digest one journal: only its new rows, unless another journal is in the place of the earlier one."""
    if earlier is not None:
        with suppress(LedgerDamageError):
            return digest_journal(path, thorough=thorough, earlier=earlier)
    return digest_journal(path, thorough=thorough)


def _digest_batch(
    thorough: bool, grown: Mapping[tuple[str, str], Digest], batch: Sequence[tuple[str, str]]
) -> list[Found | None]:
    """Digest some journals; ``None`` stands for a journal that no longer exists."""
    results: list[Found | None] = []
    for directory, name in batch:
        path = Path(directory, name)
        try:
            earlier = grown.get((directory, name))
            results.append(unless_stale(partial(_digest, path, thorough, earlier)))
        except FileNotFoundError:
            results.append(None)
        except LedgerDamageError as error:
            results.append(error.with_traceback(None))  # which would hold what was read of the journal in memory
        except OSError as error:
            results.append(LedgerDamageError.unreadable(path, error))
    return results
