"""Reads the ledger, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ledger_lab.files import unless_stale
from ledger_lab.ledger.assembly import assemble_run
from ledger_lab.ledger.content import JournalContent, read_journal
from ledger_lab.ledger.cores import map_on_cores
from ledger_lab.ledger.declarations import CohortDeclared
from ledger_lab.ledger.listing import LedgerDamageError, list_directory, list_journals
from ledger_lab.ledger.runs import Cohort, Ledger, Run

_PARALLEL_FROM = 32 << 20
"""Total size of journals above which several processes read them [B]."""

_BATCH = 8 << 20
"""Total size of the journals that a process reads at a time [B]. Of a larger directory, it reads one journal."""

OnProgress = Callable[[int, int], None]
"""Called with the bytes of journals that were read, and the bytes to read in all."""

_Read = JournalContent | LedgerDamageError
"""A journal, or its damage."""

_Journals = dict[str, int | _Read]
"""The journals of a directory by their names, or the sizes of those that are yet to be read [B]."""


@dataclass
class _Directory:
    """What was found in one directory."""

    run: Run | None = None
    loose: list[JournalContent] = field(default_factory=list)
    """Journals that belong to no run."""
    damage: list[LedgerDamageError] = field(default_factory=list)


def read_ledger(root: Path, *, on_progress: OnProgress | None = None, tolerate_damage: bool = False) -> Ledger:
    """Read every run under a directory.

    Every line of every journal is verified, and every row is checked. Other processes may write to the ledger at the
    same time.

    Args:
        root: The directory, by default ``logs``.
        on_progress: Called with the bytes of journals that were read, and the bytes to read in all.
        tolerate_damage: Whether to leave damaged runs out and list the damage, instead of raising the first damage.

    Returns:
        The ledger; empty if there is no journal.

    Raises:
        LedgerDamageError: If a journal is damaged beyond a torn last line, or a journal or a directory can't be read;
            and damage is not tolerated.
    """
    listing = list_journals(root)
    directories: dict[str, _Journals] = {path: {**journals} for path, journals in listing.directories.items()}
    sizes = {path: _size(journals) for path, journals in directories.items()}
    whole, done = sum(sizes.values()), 0
    is_parallel = whole >= _PARALLEL_FROM

    def advance(size: int) -> None:
        nonlocal done
        done += size
        if on_progress is not None:
            on_progress(done, whole)

    found: dict[str, _Directory] = {}
    small = [path for path, size in sizes.items() if size < _BATCH]
    batches = [*_batches(small, sizes)]
    reads = map_on_cores(partial(_read_batch, directories), batches, parallel=is_parallel)
    for batch, results in zip(batches, reads, strict=True):
        found |= zip(batch, results, strict=True)
        advance(sum(sizes[path] for path in batch))
    large = [
        (size, path, name)
        for path in sizes.keys() - found.keys()
        for name, size in directories[path].items()
        if isinstance(size, int)
    ]
    large.sort(reverse=True)
    paths = [Path(path, name) for _, path, name in large]
    for (size, path, name), read in zip(large, map_on_cores(_read, paths, parallel=is_parallel), strict=True):
        directories[path][name] = read or size
        advance(size)
    found |= {path: _read_directory(path, directories[path]) for path in sizes if path not in found}
    ledger = _ledger(root, [found[path] for path in sizes], listing.damage, sum(map(len, directories.values())))
    if ledger.damage and not tolerate_damage:
        raise ledger.damage[0]
    return ledger


def read_run(directory: Path) -> Run:
    """Read the run of one directory.

    Args:
        directory: The directory.

    Raises:
        LedgerDamageError: If there is none, or it is damaged.
    """
    found = _read_directory(os.fspath(directory))
    for damage in found.damage:
        raise damage
    if found.run is None:
        raise LedgerDamageError(directory, 1, "the run was removed while the ledger was read")
    return found.run


def _size(journals: _Journals) -> int:
    """Return the size of the journals of a directory that are yet to be read [B]."""
    return sum(size for size in journals.values() if isinstance(size, int))


def _batches(directories: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield directories in batches of similar size."""
    batch: list[str] = []
    filled = 0
    for directory in directories:
        batch.append(directory)
        filled += sizes[directory]
        if filled >= _BATCH:
            yield batch
            batch, filled = [], 0
    if batch:
        yield batch


def _read_batch(directories: Mapping[str, _Journals], batch: Sequence[str]) -> list[_Directory]:
    """Read some directories."""
    return [_read_directory(directory, directories[directory]) for directory in batch]


def _read_directory(directory: str, journals: _Journals | None = None) -> _Directory:
    """Read the journals of a directory, and build its run.

    They are read one after the other while processes may be writing. So a journal may refer to rows that were written
    after the other journal was read, or may have been removed, or compressed. Before this counts as damage, all of them
    are read again.

    Args:
        directory: The directory.
        journals: Its journals, if they were listed.
    """
    found = None if journals is None else _build(directory, journals)
    if found is not None and not found.damage:
        return found
    try:
        now, _ = unless_stale(partial(list_directory, directory, []))
    except FileNotFoundError:
        return _Directory()
    except OSError as error:
        return _Directory(damage=[LedgerDamageError.unreadable(Path(directory), error)])
    return _build(directory, now) or _Directory()


def _build(directory: str, journals: Mapping[str, int | _Read]) -> _Directory | None:
    """Read the journals of a directory, and build its run; ``None`` if one of them no longer exists."""
    found = _Directory()
    for name, size in journals.items():
        read = _read(Path(directory, name)) if isinstance(size, int) else size
        if read is None:
            return None
        if isinstance(read, LedgerDamageError):
            found.damage.append(read)
        else:
            found.loose.append(read)
    if not found.damage:
        try:
            found.run = assemble_run(Path(directory), found.loose)
        except LedgerDamageError as error:
            found.damage.append(error.with_traceback(None))
    if found.run is not None:
        found.loose = []
    return found


def _read(path: Path) -> _Read | None:
    """Read a journal; ``None`` if it no longer exists."""
    try:
        return unless_stale(partial(read_journal, path))
    except FileNotFoundError:
        return None
    except LedgerDamageError as error:
        return error.with_traceback(None)  # which would hold what was read of the journal in memory
    except OSError as error:
        return LedgerDamageError.unreadable(path, error)


def _ledger(root: Path, found: Sequence[_Directory], unreadable: Sequence[LedgerDamageError], journals: int) -> Ledger:
    """Put the runs together. A damaged run does not make the others unreadable."""
    by_id: dict[str, list[Run]] = {}
    for directory in found:
        if directory.run is not None:
            by_id.setdefault(directory.run.run_id, []).append(directory.run)
    damage = [*unreadable, *(each for directory in found for each in directory.damage)]
    for run_id, runs in by_id.items():
        also = f"run {run_id} lies in {runs[0].directory}, too"
        damage += (LedgerDamageError(run.directory, 1, also) for run in runs[1:])
    alone = sorted(
        (runs[0] for runs in by_id.values() if len(runs) == 1), key=lambda run: (run.declared_at, run.run_id)
    )
    loose = [journal for directory in found for journal in directory.loose]
    sound = [journal for directory in found if not directory.damage for journal in directory.loose]
    return Ledger(root, tuple(alone), _cohorts(sound, alone, damage), tuple(loose), tuple(damage), journals)


def _cohorts(
    journals: Sequence[JournalContent], runs: Sequence[Run], damage: list[LedgerDamageError]
) -> tuple[Cohort, ...]:
    """Return the declared cohorts with their runs; append contradictions to the damage."""
    declared: dict[str, tuple[int, Path]] = {}
    contradicted: set[str] = set()
    for journal in journals:
        for row in journal.of(CohortDeclared):
            size, path = declared.setdefault(row.cohort, (row.size, journal.path))
            if size != row.size:
                contradicted.add(row.cohort)
                what = f"cohort {row.cohort} has {row.size} runs here, and {size} in {path}"
                damage.append(LedgerDamageError(journal.path, 1, what))
    members: dict[str | None, list[str]] = {}
    for run in runs:
        members.setdefault(run.cohort, []).append(run.run_id)
    return tuple(
        Cohort(name, size, tuple(members.get(name, ())))
        for name, (size, _) in sorted(declared.items())
        if name not in contradicted
    )
