"""Digests of whole ledgers, made on all cores, and only for journals that have changed."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from ledger_lab.cores import map_on_cores
from ledger_lab.errors import UserError
from ledger_lab.ledger.cache import keep_digests, load_digests
from ledger_lab.ledger.digest import NO_FILE, Digest, LedgerDamageError, Stamp, digest_journal

PARALLEL_FROM = 32 << 20
"""Total size of journals above which several processes read them [B]."""

CACHED_FROM = 8 << 20
"""Total size of journals above which digests are cached [B]; less is read quickly."""

_BATCH = 8 << 20
"""Total size of journals per batch of a process [B]."""

OnProgress = Callable[[int, int], None]
"""Called with the bytes of journals that were read, and the bytes to read in all."""

Found = tuple[Stamp, Digest] | LedgerDamageError
"""Digest of a journal, or its damage."""

_Result = Found | OSError | None
"""``None`` stands for a journal that no longer exists."""


def digest_journals(
    paths: Sequence[Path], cache_root: Path | None = None, on_progress: OnProgress | None = None
) -> dict[Path, Digest | LedgerDamageError]:
    """Verify and digest many journals.

    Args:
        paths: The journals.
        cache_root: Root of the ledger, whose cached digests are used for unchanged journals; ``None`` reads every
            journal, thoroughly.
        on_progress: Called with the progress.

    Returns:
        The digest or the damage of each journal; journals that were deleted meanwhile are left out.

    Raises:
        UserError: If a journal can't be read.
    """
    seen = {path: _stamp(path) for path in paths}
    stamps = {path: stamp for path, stamp in seen.items() if isinstance(stamp, Stamp)}
    total = sum(stamp.size for stamp in stamps.values())
    known = load_digests(cache_root) if cache_root is not None and total >= CACHED_FROM else {}
    found: dict[Path, Found] = {
        path: known[path] for path, stamp in stamps.items() if path in known and known[path][0] == stamp
    }
    sizes = {path: stamp.size for path, stamp in stamps.items() if path not in found}
    new = _digest_new(sizes, on_progress, thorough=cache_root is None)
    found |= new
    found |= {path: damage for path, damage in seen.items() if isinstance(damage, LedgerDamageError)}
    if cache_root is not None and sum(sizes.values()) >= CACHED_FROM:
        whole = {path: each for path, each in found.items() if not isinstance(each, LedgerDamageError)}
        keep_digests(cache_root, whole)
    ordered = {path: found[path] for path in paths if path in found}
    return {path: each if isinstance(each, LedgerDamageError) else each[1] for path, each in ordered.items()}


def _stamp(path: Path) -> Stamp | LedgerDamageError | None:
    """Return the stamp of a journal, ``None`` if the file no longer exists, or the damage if it is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return LedgerDamageError(path, 1, "it is a link to a file that does not exist") if path.is_symlink() else None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return LedgerDamageError(path, 1, NO_FILE)
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    return Stamp.of(status) if stat.S_ISREG(status.st_mode) else LedgerDamageError(path, 1, NO_FILE)


def _digest_new(sizes: dict[Path, int], on_progress: OnProgress | None, *, thorough: bool) -> dict[Path, Found]:
    """Digest journals of known sizes."""
    total, done = sum(sizes.values()), 0
    found: dict[Path, Found] = {}
    batches = list(_batches(sizes))
    digested = map_on_cores(partial(_digest_batch, thorough), batches, parallel=total >= PARALLEL_FROM)
    for batch, results in zip(batches, digested, strict=True):
        for path, result in zip(batch, results, strict=True):
            if isinstance(result, OSError):
                raise UserError(f"cannot read {path}: {result.strerror}") from result
            if result is not None:
                found[path] = result
            done += sizes[path]
        if on_progress is not None:
            on_progress(done, total)
    return found


def _batches(sizes: dict[Path, int]) -> Iterator[list[Path]]:
    """Yield batches of journals, the largest journals first."""
    batch: list[Path] = []
    filled = 0
    for path, size in sorted(sizes.items(), key=lambda item: -item[1]):
        batch.append(path)
        filled += size
        if filled >= _BATCH:
            yield batch
            batch, filled = [], 0
    if batch:
        yield batch


def _digest_batch(thorough: bool, batch: list[Path]) -> list[_Result]:
    """Digest some journals."""
    results: list[_Result] = []
    for path in batch:
        try:
            results.append(digest_journal(path, thorough=thorough))
        except FileNotFoundError:
            results.append(None)
        except (LedgerDamageError, OSError) as error:
            results.append(error.with_traceback(None))  # which would hold what was read of the journal in memory
    return results
