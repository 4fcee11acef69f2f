"""Reads the ledger, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ledger_lab.files import unless_stale
from ledger_lab.ledger.assembly import assemble_run
from ledger_lab.ledger.content import JournalContent, decode_line, open_journal, read_journal
from ledger_lab.ledger.cores import map_on_cores
from ledger_lab.ledger.declarations import CohortDeclared, RunDeclared
from ledger_lab.ledger.encoding import GENESIS
from ledger_lab.ledger.listing import Journals, LedgerDamageError, list_directory, list_journals
from ledger_lab.ledger.runs import Cohort, Ledger, Run

_PARALLEL_FROM = 32 << 20
"""Total size of journals above which several processes read them [B]."""

_BATCH = 8 << 20
"""Total size of the journals that a process reads at a time [B]. Of a larger directory, it reads one journal."""

_DECLARATION = 1 << 17
"""Size of the longest declaration by which a run is listed [B]."""

_MANY = 1000
"""Number of directories above which runs can be listed by their declarations."""

OnProgress = Callable[[int, int], None]
"""Called with the bytes of journals that were read, and the bytes to read in all."""

_Read = JournalContent | LedgerDamageError | None
"""A journal, or its damage; ``None`` if it no longer exists."""

_Job = tuple[int, list[str], str | None]
"""What a process reads at a time: the size of the journals [B]; the directories; the one journal, if it is large."""


@dataclass
class _Directory:
    """What was found in one directory."""

    run: Run | None = None
    loose: list[JournalContent] = field(default_factory=list)
    """Journals that belong to no run."""
    damage: list[LedgerDamageError] = field(default_factory=list)


def read_ledger(
    root: Path, *, on_progress: OnProgress | None = None, tolerate_damage: bool = False, listed: bool = False
) -> Ledger:
    """Read every run under a directory.

    Every line of every journal is verified, and every row is checked. Other processes may write to the ledger at the
    same time.

    Args:
        root: The directory, by default ``logs``.
        on_progress: Called with the bytes of journals that were read, and the bytes to read in all.
        tolerate_damage: Whether to leave damaged runs out and list the damage, instead of raising the first damage.
        listed: Whether to read only the declarations of more than a thousand runs. The rest of a run is read, verified
            and checked when somebody asks for it; see :meth:`~ledger_lab.ledger.runs.Run.reference`.

    Returns:
        The ledger; empty if there is no journal.

    Raises:
        LedgerDamageError: If a journal is damaged beyond a torn last line, or a journal or a directory can't be read;
            and damage is not tolerated.
    """
    listing = list_journals(root)
    directories = listing.directories
    listed = listed and len(directories) > _MANY
    jobs = [*_jobs(directories, listed=listed)]
    whole, done = sum(size for size, *_ in jobs), 0
    is_large = whole >= _PARALLEL_FROM
    found: dict[str, _Directory] = {}
    reads: dict[str, list[_Read]] = {}
    read_job = partial(_read_job, directories, is_large, listed)
    for job, read in zip(jobs, map_on_cores(read_job, jobs, parallel=is_large), strict=True):
        size, paths, name = job
        if name is None:
            found |= zip(paths, read, strict=True)
        else:
            reads.setdefault(paths[0], []).extend(read)
        done += size
        if on_progress is not None:
            on_progress(done, whole)
    found |= {path: _read_directory(path, read) for path, read in reads.items()}
    ledger = _ledger(root, [found[path] for path in directories], listing.damage, sum(map(len, directories.values())))
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
    found = _read_again(os.fspath(directory))
    for damage in found.damage:
        raise damage
    if found.run is None:
        raise LedgerDamageError(directory, 1, "the run was removed while the ledger was read")
    return found.run


def _jobs(directories: Mapping[str, Journals], *, listed: bool) -> Iterator[_Job]:
    """Divide a ledger into jobs of similar size. Of a large directory, a job reads one journal, unless it is listed."""
    batch: list[str] = []
    filled = 0
    for path, journals in directories.items():
        size = sum(journals.values())
        if size >= _BATCH and not listed:
            yield from ((each, [path], name) for name, each in journals.items())
            continue
        batch.append(path)
        filled += size
        if filled >= _BATCH:
            yield filled, batch, None
            batch, filled = [], 0
    if batch:
        yield filled, batch, None


def _read_job(directories: Mapping[str, Journals], is_large: bool, listed: bool, job: _Job) -> list[Any]:
    """Read some directories, or one journal. Of many runs, only references are kept."""
    _, paths, name = job
    if name is not None:
        return [_read(paths[0], name)]
    found = []
    for path in paths:
        if listed and (reference := _listed_run(path, directories[path])) is not None:
            found.append(_Directory(reference))
            continue
        directory = _read_directory(path, (_read(path, each, summed=not is_large) for each in directories[path]))
        if is_large and directory.run is not None:
            directory.run = directory.run.reference()
        found.append(directory)
    return found


def _listed_run(directory: str, journals: Journals) -> Run | None:
    """Return a reference to the run of a directory by its declaration alone; ``None`` if it has to be read."""
    name = next(iter(journals))
    try:
        with open_journal(path := Path(directory, name)) as file:
            line, end, _ = file.read(_DECLARATION).partition(b"\n")
        first = decode_line(path, line + end, 0, GENESIS)
    except (LedgerDamageError, OSError):
        return None
    declared = first.data
    return Run.reference_to(path.parent, declared, first.time) if isinstance(declared, RunDeclared) else None


def _read_directory(directory: str, reads: Iterable[_Read]) -> _Directory:
    """Build the run of a directory from its journals.

    They are read one after the other while processes may be writing. So a journal may refer to rows that were written
    after the other journal was read, or may have been removed, or compressed. Before this counts as damage, all of them
    are read again.

    Args:
        directory: The directory.
        reads: Its journals.
    """
    found = _build(directory, reads)
    return _read_again(directory) if found is None or found.damage else found


def _read_again(directory: str) -> _Directory:
    """List the journals of a directory, read them, and build its run."""
    try:
        journals, _ = unless_stale(partial(list_directory, directory, []))
    except FileNotFoundError:
        return _Directory()
    except OSError as error:
        return _Directory(damage=[LedgerDamageError.unreadable(Path(directory), error)])
    return _build(directory, (_read(directory, name) for name in journals)) or _Directory()


def _build(directory: str, reads: Iterable[_Read]) -> _Directory | None:
    """Build the run of a directory from its journals; ``None`` if one of them no longer exists."""
    found = _Directory()
    for read in reads:
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


def _read(directory: str, name: str, *, summed: bool = True) -> _Read:
    """Read a journal."""
    path = Path(directory, name)
    try:
        return unless_stale(partial(read_journal, path, summed=summed))
    except FileNotFoundError:
        return LedgerDamageError(path, 1, "it is a link to a file that does not exist") if path.is_symlink() else None
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
