"""The journals of each directory of a ledger, digested on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path

from ledger_lab.files import unless_stale
from ledger_lab.ledger.content import JournalContent
from ledger_lab.ledger.cores import map_on_cores
from ledger_lab.ledger.digest import Digest, digest_journal
from ledger_lab.ledger.listing import COMPRESSED, LedgerDamageError, Listing, list_directory

PARALLEL_FROM = 32 << 20
"""Total size of journals above which several processes read them [B]."""

_BATCH = 8 << 20
"""Total size of journals per batch of a process [B]."""

OnProgress = Callable[[int, int], None]
"""Called with the bytes of journals that were read, and the bytes to read in all."""

Found = Digest | LedgerDamageError
"""Digest of a journal, or its damage."""


class Directory:
    """The journals of one directory."""

    def __init__(self, path: Path, found: dict[str, Found]) -> None:
        """Hold what was found.

        Args:
            path: The directory.
            found: Digests and damage of its journals by name.
        """
        self.path, self.found = path, found
        self.damage = [each for each in self._counted.values() if isinstance(each, LedgerDamageError)]
        """Damage of its journals; the run in it is left out."""

    @cached_property
    def journals(self) -> list[JournalContent]:
        """Its sound journals."""
        return [
            JournalContent(self.path / name, found)
            for name, found in self._counted.items()
            if not isinstance(found, LedgerDamageError)
        ]

    @property
    def _counted(self) -> dict[str, Found]:
        """What was found, without compressed journals that are unfinished, or equal the journal that gzip reads."""
        kept = dict(self.found)
        for name, each in self.found.items():
            plain = self.found.get(name.removesuffix(COMPRESSED)) if name.endswith(COMPRESSED) else None
            if isinstance(plain, Digest) and (
                isinstance(each, LedgerDamageError) or (each.rows, each.last_hash) == (plain.rows, plain.last_hash)
            ):
                del kept[name]
        return kept


def read_directory(path: Path) -> Directory:
    """Read the journals of one directory.

    Args:
        path: The directory.
    """
    listing = list_directory(path)
    directories = digest_directories(listing)
    directory = directories[0] if directories else Directory(path, {})
    directory.damage += listing.damage
    return directory


def digest_directories(
    listing: Listing, on_progress: OnProgress | None = None, *, thorough: bool = False
) -> list[Directory]:
    """Verify and digest many journals.

    Args:
        listing: The journals.
        on_progress: Called with the progress.
        thorough: Whether to parse every row, see :func:`ledger_lab.ledger.digest.digest_journal`.

    Returns:
        The directories, without journals that were deleted meanwhile.
    """
    found: dict[str, dict[str, Found]] = {}
    sizes: dict[tuple[str, str], int] = {}
    for directory, listed in listing.directories.items():
        found[directory] = {name: size for name, size in listed.items() if isinstance(size, LedgerDamageError)}
        sizes |= {(directory, name): size for name, size in listed.items() if isinstance(size, int)}
    batches = list(_batches(sizes))
    digested = map_on_cores(partial(_digest_batch, thorough), batches, parallel=listing.size >= PARALLEL_FROM)
    done = 0
    for batch, results in zip(batches, digested, strict=True):
        for (directory, name), result in zip(batch, results, strict=True):
            if result is not None:
                found[directory][name] = result
            done += sizes[directory, name]
        if on_progress is not None:
            on_progress(done, listing.size)
    return [Directory(Path(name), dict(sorted(each.items()))) for name, each in found.items() if each]


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


def _digest_batch(thorough: bool, batch: Sequence[tuple[str, str]]) -> list[Found | None]:
    """Digest some journals; ``None`` stands for a journal that no longer exists."""
    results: list[Found | None] = []
    for directory, name in batch:
        path = Path(directory, name)
        try:
            results.append(unless_stale(partial(digest_journal, path, thorough=thorough)))
        except FileNotFoundError:
            results.append(None)
        except LedgerDamageError as error:
            results.append(error.with_traceback(None))  # which would hold what was read of the journal in memory
        except OSError as error:
            results.append(LedgerDamageError.unreadable(path, error))
    return results
