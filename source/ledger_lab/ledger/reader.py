"""Reads the ledger, on all cores: runs from their journals, and journals that are missing, cut, copied or foreign."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from ledger_lab.files import unless_stale
from ledger_lab.ledger.anchors import require_anchored
from ledger_lab.ledger.content import ARRIVES_WITHIN_NS, JournalContent, decode_line, open_journal, read_journal
from ledger_lab.ledger.cores import map_on_cores
from ledger_lab.ledger.declarations import CohortDeclared, RunDeclared
from ledger_lab.ledger.encoding import GENESIS
from ledger_lab.ledger.listing import Journals, LedgerDamageError, list_directory, list_journals
from ledger_lab.ledger.rows import (
    AttemptStarted,
    CheckpointSaved,
    EvaluationStarted,
    StateRestored,
    StateSaved,
    Status,
    SupervisionStarted,
)
from ledger_lab.ledger.runs import Attempt, Cohort, Evaluation, Ledger, Run, attempt_number, evaluation_name
from ledger_lab.ledger.telemetry import TelemetryStarted

_STARTS: tuple[Any, ...] = (AttemptStarted, SupervisionStarted, TelemetryStarted)
"""First rows of the journals of processes, supervisors and telemetry, in the order of the fields of an attempt."""

_OWNERS = ("rank", "the supervisor of rank", "the telemetry of rank")

_FINISHED = (Status.COMPLETED, Status.TARGET_REACHED, Status.LIMIT_REACHED)
"""Statuses of attempts that all processes have reached together."""


def assemble_run(directory: Path, journals: Iterable[JournalContent]) -> Run | None:
    """Build the run of one directory; ``None`` if no journal declares one.

    Args:
        directory: The directory.
        journals: Its journals.

    Raises:
        LedgerDamageError: If the journals cannot be those of one run, or one of them is missing or was cut short.
    """
    return _RunJournals(directory, journals).run()


class _RunJournals:
    """The journals of one directory, by their writers: ranks, supervisors and telemetry of attempts; evaluations."""

    def __init__(self, path: Path, journals: Iterable[JournalContent]) -> None:
        """Sort them.

        Raises:
            LedgerDamageError: If two of them claim to be the same journal, one is a copy of another, or one has two
                writers.
        """
        self.path = path
        self.journals = sorted(journals, key=lambda journal: journal.path.name)
        self.owned: list[dict[int, dict[int, JournalContent]]] = [{}, {}, {}]
        """Journals by attempt and rank, for each of :data:`_STARTS`."""
        self.evaluated: dict[str, list[JournalContent]] = {}
        """Journals of stand-alone evaluations, by their names."""
        originals: dict[str, JournalContent] = {}
        for journal in self.journals:
            original = originals.setdefault(journal.first_hash, journal)
            # The telemetry of two evaluations may begin in the same millisecond, with the same row.
            if original is not journal and journal.count and TelemetryStarted not in journal.others:
                raise LedgerDamageError(journal.path, 1, f"it is a copy of {original.path.name}")
            self._sort(journal)
        self.numbers = {*self.owned[0], *self.owned[1]}
        """Numbers of the attempts that wrote a row."""
        self.arrived = self._arrived_until()

    def _sort(self, journal: JournalContent) -> None:
        """Register a journal under its writer."""
        of_evaluation = EvaluationStarted in journal.others
        of_evaluation |= bool(journal.scores) and AttemptStarted not in journal.others
        for kind, owned, what in zip(_STARTS, self.owned, _OWNERS, strict=True):
            if kind not in journal.others:
                continue
            starts = journal.of(kind)
            if len(starts) > 1:
                raise LedgerDamageError(journal.path, 2, "a second process started here: each has its own journal")
            attempt, rank = starts[0].attempt, starts[0].rank
            if attempt is None:
                of_evaluation = True
                continue
            other = owned.setdefault(attempt, {}).setdefault(rank, journal)
            if other is not journal:
                claim = f"{other.path.name} claims to be {what} {rank} of attempt {attempt}, too"
                raise LedgerDamageError(journal.path, 1, claim)
        if of_evaluation:
            self.evaluated.setdefault(evaluation_name(journal.path), []).append(journal)

    def _arrived_until(self) -> datetime:
        """Return until when rows were written so that everything that they refer to is visible on this host.

        What another host has written to a shared file system may appear here later, and in any order. So a reference
        that another host has just written to a missing row is not damage yet.
        """
        own = socket.gethostname()
        kinds: tuple[Any, ...] = (AttemptStarted, SupervisionStarted, EvaluationStarted)
        if all(row.host == own for journal in self.journals for kind in kinds for row in journal.of(kind)):
            return datetime.max.replace(tzinfo=UTC)
        return datetime.now(UTC) - timedelta(microseconds=ARRIVES_WITHIN_NS // 1000)

    def run(self) -> Run | None:
        """Build the run.

        Raises:
            LedgerDamageError: As for :func:`assemble_run`.
        """
        declarations = [(journal, *each) for journal in self.journals for each in journal.timed(RunDeclared)]
        if not declarations:
            self._require_undeclared()
            require_anchored(self.journals, self.arrived)
            return None
        first, declared, declared_at = declarations[0]
        for journal, *_ in declarations[1:]:
            raise LedgerDamageError(journal.path, 1, f"run {declared.run_id} is declared here already")
        for journal in self.journals:
            named = {score.run_id for score in journal.scores}
            named |= {row.run_id for kind in (*_STARTS, EvaluationStarted) for row in journal.of(kind)}
            for run_id in named - {declared.run_id}:
                what = f"it belongs to run {run_id}, and {first.path.name} declares run {declared.run_id}"
                raise LedgerDamageError(journal.path, 1, what)
        require_anchored(self.journals, self.arrived)
        self._require_attempts()
        attempts = tuple(map(self._attempt, sorted(self.numbers)))
        for attempt in attempts:
            self._require_ranks(attempt, declared)
        evaluations = sorted(map(_evaluation, self.evaluated.values()), key=_began)
        self._require_references()
        return Run(self.path, declared, declared_at, attempts, tuple(evaluations), tuple(self.journals))

    def _attempt(self, number: int) -> Attempt:
        """Return an attempt."""
        own = (sorted(owned.get(number, {}).items()) for owned in self.owned)
        return Attempt(number, *(tuple(journal for _, journal in each) for each in own))

    def _require_attempts(self) -> None:
        """Refuse a run of which an attempt is missing. Attempts that never wrote a row have empty journals."""
        named = (attempt_number(journal.path) for journal in self.journals)
        numbers = self.numbers | {number for number in named if number is not None}
        for number in range(1, max(numbers, default=0)):
            later = (each for each in self.journals if each.count and (attempt_number(each.path) or 0) > number)
            if number not in numbers and all(each.first_time <= self.arrived for each in later):
                raise LedgerDamageError(self.path, 1, f"attempt {number} of {max(numbers)} is missing")

    def _require_undeclared(self) -> None:
        """Refuse attempts and scores without a declaration of their run, unless it may still be written, or never was.

        The first process declares the run before it does anything else. So where it left nothing, it ended before that,
        while the others had begun. Scores are only made of declared runs.
        """
        began = self.numbers - {1} or any(0 in owned.get(1, {}) for owned in self.owned[:2])
        if (began or self.evaluated) and not any(self._attempt(number).shows_life() for number in self.numbers):
            raise LedgerDamageError(self.path, 1, "the declaration of its run is missing")

    def _require_ranks(self, attempt: Attempt, declared: RunDeclared) -> None:
        """Refuse an attempt without the journal of a process that has taken part in it, or with one too many.

        All processes compute each iteration together. So once one has completed an iteration, all of them have begun.
        Of several machines, each may keep only the journals of its own processes.
        """
        size, ranks = declared.world_size, self.owned[0].get(attempt.number, {})
        for rank, journal in ranks.items():
            if rank >= size:
                what = f"it is rank {rank} of attempt {attempt.number} of a run of {size} processes"
                raise LedgerDamageError(journal.path, 1, what)
        if len(ranks) == size or (declared.machines or 1) > 1:
            return
        done = any(journal.windows.iterations for journal in attempt.ranks)
        done = done or (attempt.ended is not None and attempt.ended.status in _FINISHED)
        arrived = max(journal.last_time for journal in attempt.journals) <= self.arrived
        if done and arrived and not attempt.shows_life():
            rank = min({*range(size)} - ranks.keys())
            which = f"the journal of rank {rank} of attempt {attempt.number}"
            raise LedgerDamageError(self.path, 1, f"{which} is missing (of {size} processes)")

    def _require_references(self) -> None:
        """Refuse scores of unsaved checkpoints, and attempts that resumed from an unsaved state."""
        saved = {(row.path, row.sha256) for journal in self.journals for row in journal.of(CheckpointSaved)}
        states = {row.sha256 for journal in self.journals for row in journal.of(StateSaved)}
        for journal in self.journals:
            for score in journal.scores:
                if score.time <= self.arrived and (score.checkpoint, score.sha256) not in saved:
                    what = f"it scores {score.checkpoint} ({score.sha256[:12]}…), which no attempt of the run saved"
                    raise LedgerDamageError(journal.path, 1, what)
            for row, time in journal.timed(StateRestored):
                if time <= self.arrived and row.sha256 not in states:
                    what = f"it resumes from a state of attempt {row.attempt} that no attempt of the run saved"
                    raise LedgerDamageError(journal.path, 1, what)


def _evaluation(journals: list[JournalContent]) -> Evaluation:
    """Return an evaluation."""
    starts = (row for journal in journals for row in journal.of(EvaluationStarted))
    shares = [len(row.checkpoints) / row.all_checkpoints for row in starts if row.all_checkpoints is not None]
    return Evaluation(tuple(journals), shares[-1] if shares else 1.0)


def _began(evaluation: Evaluation) -> datetime:
    """Return when an evaluation wrote its first score; without scores, when its first row was written."""
    scored = [journal.scores[0].time for journal in evaluation.journals if journal.scores]
    return min(scored or [journal.first_time for journal in evaluation.journals])


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
