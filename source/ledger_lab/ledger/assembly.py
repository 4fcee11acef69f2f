"""Builds runs from journals, and detects journals that are missing, cut, copied or those of another run."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger.anchors import require_anchored
from ledger_lab.ledger.content import JournalContent
from ledger_lab.ledger.declarations import CohortDeclared, RunDeclared
from ledger_lab.ledger.digest import Digest
from ledger_lab.ledger.directories import Directory, read_directory
from ledger_lab.ledger.directory_journals import DirectoryJournals
from ledger_lab.ledger.encoding import parse_time
from ledger_lab.ledger.holes import ARRIVES_WITHIN_NS
from ledger_lab.ledger.listing import COMPRESSED, LedgerDamageError
from ledger_lab.ledger.results import PanelResult
from ledger_lab.ledger.rows import (
    AttemptStarted,
    CheckpointSaved,
    EvaluationStarted,
    Status,
    SupervisionStarted,
)
from ledger_lab.ledger.runs import Attempt, Cohort, Ledger, Run
from ledger_lab.ledger.states import StateRestored, StateSaved


def assemble_ledger(root: Path, directories: Sequence[Directory], unreadable: Iterable[LedgerDamageError]) -> Ledger:
    """Build runs and cohorts from journals. A damaged run does not make the others unreadable.

    Args:
        root: The directory that contains them.
        directories: The journals.
        unreadable: Directories that can't be read.
    """
    by_id: dict[str, list[Run]] = {}
    for directory in directories:
        if directory.damage:
            continue
        run = _run_in(directory)
        if run is not None:
            by_id.setdefault(run.run_id, []).append(run)
    damage = [*unreadable, *(each for directory in directories for each in directory.damage)]
    runs = []
    for run_id, found in by_id.items():
        also = f"run {run_id} lies in {found[0].directory}, too"
        damage += (LedgerDamageError(run.directory, 1, also) for run in found[1:])
        if len(found) == 1:
            runs += found
    runs.sort(key=lambda run: (run.declared_at, run.run_id))
    sound = [directory for directory in directories if not directory.damage]
    cohorts = _cohorts([journal for directory in sound for journal in directory.journals], runs, damage)
    return Ledger(root, tuple(runs), cohorts, tuple(directories), tuple(damage))


def _run_in(directory: Directory) -> Run | None:
    """Return the run of a directory, if there is one; append what is wrong with the directory to its damage."""
    try:
        return _assemble_live(directory.path, directory.journals)
    except LedgerDamageError as error:
        directory.damage.append(error)
        return None


def _cohorts(
    journals: Sequence[JournalContent], runs: list[Run], damage: list[LedgerDamageError]
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


_ALWAYS = datetime.max.replace(tzinfo=UTC)
"""Later than any row."""


def _assemble_live(directory: Path, journals: list[JournalContent]) -> Run | None:
    """Build the run of one directory's journals, while its processes may be writing.

    The journals were read one after the other, so a journal may refer to rows that were written after the other journal
    was read. Before a missing row counts as damage, all journals are read again. The same is done where a journal was
    deleted or compressed since it was read. What another host has written to a shared file system may appear here
    later, and in any order. So a reference that another host has just written to a missing row is not damage yet.

    Raises:
        LedgerDamageError: As for :func:`_assemble`.
    """
    try:
        return _assemble(directory, journals, journals)
    except UserError:  # damage is one, too
        later = _read_again(directory)
    kept = {journal.path for journal in later}
    read = journals if all(each.path in kept for each in journals) else later
    return _assemble(directory, read, later, _arrived_until(later))


def _arrived_until(journals: Sequence[JournalContent]) -> datetime:
    """Return until when rows were written so that everything that they refer to is visible on this host."""
    starts: list[AttemptStarted | SupervisionStarted | EvaluationStarted] = []
    for journal in journals:
        starts += [*journal.of(AttemptStarted), *journal.of(SupervisionStarted), *journal.of(EvaluationStarted)]
    own = socket.gethostname()
    if all(row.host == own for row in starts):
        return _ALWAYS
    return datetime.now(UTC) - timedelta(microseconds=ARRIVES_WITHIN_NS // 1000)


def _read_again(path: Path) -> list[JournalContent]:
    """Read all journals of one directory.

    Raises:
        LedgerDamageError: If one is damaged, or can't be read.
    """
    directory = read_directory(path)
    for damage in directory.damage:
        raise damage
    return directory.journals


def _assemble(
    directory: Path, journals: list[JournalContent], later: list[JournalContent], arrived: datetime = _ALWAYS
) -> Run | None:
    """Build the run of one directory's journals; ``None`` if none declares a run.

    Args:
        directory: The directory.
        journals: Its journals.
        later: All of its journals, read at the same time or later. They must contain everything that ``journals`` refer
            to.
        arrived: Time of the last row whose references are checked.

    Raises:
        LedgerDamageError: If the journals cannot be those of one run, or one of them is missing or was cut short.
    """
    found = DirectoryJournals(directory, journals)
    if not found.declarations:
        _require_undeclared(found, later, arrived)
        return None
    first, declared, declared_at = found.declarations[0]
    for journal, *_ in found.declarations[1:]:
        raise LedgerDamageError(journal.path, 1, f"run {declared.run_id} is declared here already")
    for journal, run_id in found.run_ids:
        if run_id != declared.run_id:
            raise LedgerDamageError(
                journal.path, 1, f"it belongs to run {run_id}, and {first.path.name} declares run {declared.run_id}"
            )
    _require_attempts(found, later, arrived)
    for number, ranks in found.ranks.items():
        for rank, journal in ranks.items():
            if rank >= declared.world_size:
                what = f"it is rank {rank} of attempt {number} of a run of {declared.world_size} processes"
                raise LedgerDamageError(journal.path, 1, what)
    attempts = tuple(map(found.attempt, sorted({*found.ranks, *found.supervisions})))
    for attempt in attempts:
        if max(journal.last_time for journal in attempt.journals) <= arrived:
            _require_ranks(directory, attempt, declared, later)
    run = Run(directory, declared, declared_at, attempts, tuple(found.evaluations))
    _require_references(found.all, later, arrived)
    return run


def _require_attempts(found: DirectoryJournals, later: Sequence[JournalContent], arrived: datetime) -> None:
    """Refuse a run of which an attempt is missing, or a journal that another row names.

    Raises:
        LedgerDamageError: If so.
    """
    require_anchored((each for each in found.anchored if each.named_at <= arrived), _by_name(later))
    numbers = found.numbers
    for number in range(1, max(numbers, default=0)):
        if number not in numbers and found.began_after(number) <= arrived:
            raise LedgerDamageError(found.directory, 1, f"attempt {number} of {max(numbers)} is missing")


def _by_name(journals: Sequence[JournalContent]) -> dict[str, tuple[Path, Digest]]:
    """Return paths and digests of journals by their names, without the suffix of compressed journals."""
    return {each.path.name.removesuffix(COMPRESSED): (each.path, each.digest) for each in journals}


def _require_undeclared(found: DirectoryJournals, later: Sequence[JournalContent], arrived: datetime) -> None:
    """Refuse attempts and scores without a declaration of their run, unless it may still be written, or never was.

    The first process declares the run before it does anything else. So where it left nothing, it ended before that,
    while the others had begun. Scores are only made of declared runs.
    """
    numbers = {*found.ranks, *found.supervisions}
    began = numbers - {1} or any(0 in of_attempt.get(1, {}) for of_attempt in (found.ranks, found.supervisions))
    scored = found.evaluations or any(
        journal.places(EvaluationStarted) or any(row.attempt is None for row in journal.of(SupervisionStarted))
        for journal in found.all
    )
    if (
        (began or scored)
        and not any(journal.places(RunDeclared) for journal in later)
        and not any(found.attempt(number).shows_life() for number in numbers)
    ):
        raise LedgerDamageError(found.directory, 1, "the declaration of its run is missing")
    require_anchored((each for each in found.anchored if each.named_at <= arrived), _by_name(later))


_FINISHED = (Status.COMPLETED, Status.TARGET_REACHED, Status.LIMIT_REACHED)
"""Statuses of attempts that all processes have reached together."""


def _require_ranks(directory: Path, attempt: Attempt, declared: RunDeclared, later: Sequence[JournalContent]) -> None:
    """Refuse an attempt without the journal of a process that has taken part in it.

    All processes compute each iteration together. So once one has completed an iteration, all of them have begun. Of
    several machines, each may keep only the journals of its own processes.
    """
    if len(attempt.ranks) == declared.world_size or (declared.machines or 1) > 1:
        return
    done = any(journal.windows.iterations for journal in attempt.ranks)
    done = done or (attempt.ended is not None and attempt.ended.status in _FINISHED)
    if not done or attempt.shows_life():
        return
    begun = {row.rank for journal in later for row in journal.of(AttemptStarted) if row.attempt == attempt.number}
    for rank in range(declared.world_size):
        if rank not in begun:
            which = f"the journal of rank {rank} of attempt {attempt.number}"
            raise LedgerDamageError(directory, 1, f"{which} is missing (of {declared.world_size} processes)")


def _require_references(journals: Sequence[JournalContent], later: Sequence[JournalContent], arrived: datetime) -> None:
    """Refuse scores of unsaved checkpoints, and attempts that resumed from an unsaved state."""
    saved = {(row.path, row.sha256) for journal in later for row in journal.of(CheckpointSaved)}
    states = {row.sha256 for journal in later for row in journal.of(StateSaved)}
    for journal in journals:
        for score, place in zip(journal.digest.scores, journal.places(PanelResult), strict=True):
            if parse_time(place.time) <= arrived and (score.checkpoint, score.sha256) not in saved:
                what = f"it scores {score.checkpoint} ({score.sha256[:12]}…), which no attempt of the run saved"
                raise LedgerDamageError(journal.path, 1, what)
        for row, time in journal.timed(StateRestored):
            if time <= arrived and row.sha256 not in states:
                what = f"it resumes from a state of attempt {row.attempt} that no attempt of the run saved"
                raise LedgerDamageError(journal.path, 1, what)
