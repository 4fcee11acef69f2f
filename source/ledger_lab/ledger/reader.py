"""The reader: builds runs from journals."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TypeVar

from ledger_lab.errors import UserError
from ledger_lab.ledger.anchors import Anchored, require_anchored
from ledger_lab.ledger.content import JournalContent, read_journal
from ledger_lab.ledger.digest import COMPRESSED, Digest, LedgerDamageError, digest_journal, find_journals
from ledger_lab.ledger.digests import digest_journals
from ledger_lab.ledger.liveness import is_alive
from ledger_lab.ledger.results import PanelResult
from ledger_lab.ledger.rows import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    CohortDeclared,
    EvaluationStarted,
    PhaseWindow,
    Row,
    RunDeclared,
    ShutdownEnded,
    Status,
    SupervisionStarted,
    TelemetryStarted,
)
from ledger_lab.ledger.states import StateRestored, StateSaved
from ledger_lab.ledger.tally import WindowSums

__all__ = [
    "Attempt",
    "JournalContent",
    "Ledger",
    "LedgerDamageError",
    "Run",
    "assemble_ledger",
    "find_journals",
    "read_journal",
    "read_ledger",
    "silence_limit",
    "telemetry_path",
    "without_telemetry",
]

_SILENCE_LIMIT, _UNSUPERVISED_LIMIT = timedelta(minutes=2), timedelta(minutes=15)

_R = TypeVar("_R", bound=Row)


@dataclass(frozen=True)
class Attempt:
    """One group of processes within a run, as recorded in its journals."""

    number: int
    """Number of the attempt within its run, from 1."""
    ranks: tuple[JournalContent, ...]
    """Journals of its processes, by rank."""
    supervisions: tuple[JournalContent, ...]
    """Journals of their supervisors, by rank; empty if there is no supervisor."""
    telemetries: tuple[JournalContent, ...] = ()
    """Journals of their telemetry, by rank. Empty if they were not kept, and in ledgers of earlier versions, whose
    supervisors wrote telemetry into their own journals."""

    @property
    def supervision(self) -> JournalContent | None:
        """Journal of the first process's supervisor; ``None`` if there is no supervisor."""
        return next(iter(self.supervisions), None)

    @property
    def journals(self) -> tuple[JournalContent, ...]:
        """All its journals."""
        return (*self.ranks, *self.supervisions, *self.telemetries)

    def of(self, kind: type[_R]) -> list[_R]:
        """Return the rows of one kind: those of its processes by rank, then those of their supervisors by rank."""
        return [row for journal in self.journals for row in journal.of(kind)]

    @cached_property
    def ended(self) -> AttemptEnded | None:
        """How it ended, according to its first process; ``None`` if no end was written."""
        return next(iter(self.of(AttemptEnded)), None)

    @cached_property
    def shutdown(self) -> ShutdownEnded | None:
        """How its processes exited after that; ``None`` if this was not written."""
        return next(iter(self.of(ShutdownEnded)), None)

    @property
    def silence_limit(self) -> timedelta:
        """How long it may be silent on another host before it counts as lost."""
        return silence_limit(supervised=bool(self.supervisions))

    @property
    def status(self) -> Status:
        """How it ended. If no end was written: ``running`` while there are heartbeats, else ``lost``."""
        if self.ended is not None:
            return self.ended.status
        return Status.RUNNING if self.shows_life() else Status.LOST

    def shows_life(self, *, here: bool = False) -> bool:
        """Tell whether one of its processes runs on this host; if this host cannot tell, whether a row is recent.

        Args:
            here: Look only on this host.
        """
        starts: list[tuple[AttemptStarted | SupervisionStarted, datetime]] = []
        for journal in self.journals:
            starts += journal.timed(AttemptStarted)
            starts += journal.timed(SupervisionStarted)
        found = [
            is_alive(start.pid, time, start.process) for start, time in starts if start.host == socket.gethostname()
        ]
        if known := [alive for alive in found if alive is not None]:
            return any(known)
        silent = datetime.now(UTC) - max(journal.last_time for journal in self.journals)
        return not here and silent < self.silence_limit

    @property
    def windows(self) -> list[PhaseWindow]:
        """Phase windows of its first process, in order. Each call may read the journal; :attr:`sums` does not."""
        return self.ranks[0].of(PhaseWindow) if self.ranks else []

    @property
    def sums(self) -> WindowSums:
        """Sums of the phase windows of its first process."""
        return self.ranks[0].windows if self.ranks else WindowSums()

    @property
    def wall_ns(self) -> int:
        """Its duration until its processes had ended, or to its last heartbeat [ns]."""
        return max(journal.digest.wall_ns for journal in self.journals)


def silence_limit(*, supervised: bool) -> timedelta:
    """Return how long an attempt on another host may be silent before it counts as lost.

    A supervisor writes every second. Without one, there may be no row for minutes while kernels are compiled.

    Args:
        supervised: Whether it has a supervisor.
    """
    return _SILENCE_LIMIT if supervised else _UNSUPERVISED_LIMIT


@dataclass(frozen=True)
class Run:
    """One declared training effort, with all its journals."""

    directory: Path
    declared: RunDeclared
    declared_at: datetime
    attempts: tuple[Attempt, ...]
    evaluations: tuple[JournalContent, ...] = ()
    """Journals of stand-alone evaluations, by their start."""

    @property
    def checkpoints(self) -> list[CheckpointSaved]:
        """All checkpoints, by iteration. If an iteration was trained again, only the later checkpoint counts."""
        kept = {row.path: row for attempt in self.attempts for row in attempt.of(CheckpointSaved)}
        return sorted(kept.values(), key=attrgetter("iteration"))

    @property
    def windows(self) -> list[tuple[Attempt, PhaseWindow]]:
        """Phase windows of all attempts whose work was not lost, in order. Each call may read the journals."""
        return [
            (attempt, window)
            for attempt in self.attempts
            for window in attempt.windows
            if not self.is_lost(attempt, window)
        ]

    def is_lost(self, attempt: Attempt, window: PhaseWindow) -> bool:
        """Tell whether a later attempt did the work of a window again.

        This is the work of an attempt after the state that a later attempt resumed from, and all work of the attempts
        in between.
        """
        kept_ns, iteration = self._kept.get(attempt.number, (None, 0))
        if kept_ns is None or window.wall_ns <= kept_ns:
            return False
        return window.iteration is None or window.iteration > iteration

    def was_resumed(self, attempt: Attempt) -> bool:
        """Tell whether a later attempt resumed from this attempt, or from an earlier one."""
        return attempt.number in self._kept

    @cached_property
    def _kept(self) -> dict[int, tuple[int, int]]:
        """Age and iteration up to which the work of an attempt was kept, by attempt; others keep all of it."""
        kept: dict[int, tuple[int, int]] = {}
        for attempt in self.attempts:
            for row in attempt.of(StateRestored):
                kept |= dict.fromkeys(range(row.attempt + 1, attempt.number), (0, 0))
                kept[row.attempt] = (row.saved_wall_ns, row.iteration)
        return kept

    @property
    def proven(self) -> bool:
        """Whether the run is finished: a policy is confirmed, and the training had to stop at the target."""
        return self.declared.stop_at_target and any(row.confirms for _, row in self.judged)

    @property
    def judged(self) -> list[tuple[Attempt | None, PanelResult]]:
        """All panel results with their attempts. Each call reads them again, because they are long.

        Results of attempts come first, in order; those of stand-alone evaluations follow, with ``None``. Only the order
        among evaluations depends on the wall clock.
        """
        of_attempts = [(attempt, row) for attempt in self.attempts for row in attempt.of(PanelResult)]
        return [*of_attempts, *((None, row) for journal in self.evaluations for row in journal.of(PanelResult))]

    @property
    def results(self) -> tuple[PanelResult, ...]:
        """All panel results, in the order of :attr:`judged`. Each call reads them again."""
        return tuple(row for _, row in self.judged)


@dataclass(frozen=True)
class Cohort:
    """Runs that belong together; their number was declared before the first one."""

    name: str
    size: int
    """Number of declared runs."""
    run_ids: tuple[str, ...]
    """Existing runs, oldest first."""

    @property
    def missing(self) -> int:
        """Number of declared runs that do not exist."""
        return max(0, self.size - len(self.run_ids))


@dataclass(frozen=True)
class Ledger:
    """All journals under a root directory."""

    root: Path
    runs: tuple[Run, ...]
    """Runs, oldest first."""
    cohorts: tuple[Cohort, ...] = field(default=())
    """Cohorts that were declared with a size, by name."""
    torn: tuple[JournalContent, ...] = field(default=())
    """Journals with an unfinished last line."""
    journals: tuple[JournalContent, ...] = field(default=(), repr=False)
    """All journals, including those that belong to no run."""
    damage: tuple[LedgerDamageError, ...] = field(default=())
    """Damage of the ledger. Runs with damage in their directories are left out."""


def telemetry_path(supervision: Path) -> Path:
    """Return the path of the journal that a supervisor writes telemetry into.

    Args:
        supervision: Path of the supervisor's own journal.
    """
    return supervision.with_name(supervision.name.replace("-supervisor", "-telemetry"))


def without_telemetry(journals: Sequence[JournalContent]) -> list[JournalContent]:
    """Return the supervisors' journals whose telemetry was not kept.

    Args:
        journals: All journals that belong together, of any kind.
    """
    kept = {journal.path.with_name(journal.path.name.removesuffix(COMPRESSED)) for journal in journals}
    return [
        journal
        for journal in journals
        if journal.of(SupervisionStarted)
        and not journal.telemetry.wall_ns  # supervisors of earlier versions wrote telemetry into their own journals
        and telemetry_path(journal.path.with_name(journal.path.name.removesuffix(COMPRESSED))) not in kept
    ]


def read_ledger(
    root: Path,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    use_cache: bool = True,
    tolerate_damage: bool = False,
) -> Ledger:
    """Read every run under a directory.

    Every line of every journal is verified, unless it was verified before and the journal has not changed since
    (:mod:`ledger_lab.ledger.cache`). Other processes may write to the ledger at the same time.

    Args:
        root: The directory, by default ``logs``.
        on_progress: Called with the bytes of journals that were read, and the bytes to read in all.
        use_cache: Whether to use the cache of earlier verifications.
        tolerate_damage: Whether to leave damaged runs out and list the damage, instead of raising the first damage.

    Returns:
        The ledger; empty if there is no journal.

    Raises:
        LedgerDamageError: If a journal is damaged beyond a torn last line, and damage is not tolerated.
        UserError: If a journal or a directory can't be read.
    """
    ledger = assemble_ledger(root, digest_journals(find_journals(root), root if use_cache else None, on_progress))
    if ledger.damage and not tolerate_damage:
        raise ledger.damage[0]
    return ledger


def assemble_ledger(root: Path, digests: Mapping[Path, Digest | LedgerDamageError]) -> Ledger:
    """Build runs and cohorts from journals. A damaged run does not make the others unreadable.

    Args:
        root: The directory that contains them.
        digests: Digest or damage of each journal.

    Raises:
        UserError: If a journal can no longer be read.
    """
    damage: list[LedgerDamageError] = []
    by_directory: dict[Path, list[JournalContent]] = {}
    damaged: set[Path] = set()
    for path, digest in _without_drafts(digests).items():
        if isinstance(digest, LedgerDamageError):
            damage.append(digest)
            damaged.add(path.parent)
        else:
            by_directory.setdefault(path.parent, []).append(JournalContent.stored(path, digest))
    by_id: dict[str, list[Run]] = {}
    for directory, journals in by_directory.items():
        if directory in damaged:
            continue
        try:
            run = _assemble_live(directory, journals)
        except LedgerDamageError as error:
            damage.append(error)
            damaged.add(directory)
        else:
            if run is not None:
                by_id.setdefault(run.declared.run_id, []).append(run)
    runs = []
    for run_id, found in by_id.items():
        also = f"run {run_id} lies in {found[0].directory}, too"
        damage += (LedgerDamageError(run.directory, 1, also) for run in found[1:])
        if len(found) == 1:
            runs += found
    runs.sort(key=lambda run: (run.declared_at, run.declared.run_id))
    journals = [journal for directory, each in by_directory.items() if directory not in damaged for journal in each]
    torn = tuple(journal for journal in journals if journal.torn_bytes)
    cohorts = _cohorts(journals, runs, damage)
    return Ledger(root, tuple(runs), cohorts, torn, tuple(journals), tuple(damage))


def _without_drafts(digests: Mapping[Path, Digest | LedgerDamageError]) -> dict[Path, Digest | LedgerDamageError]:
    """Leave compressed journals out that lie unfinished, or as the same rows, beside the journal that gzip reads."""
    kept = dict(digests)
    for path, digest in digests.items():
        plain = digests.get(path.with_suffix("")) if path.suffix == COMPRESSED else None
        if isinstance(plain, Digest) and (
            isinstance(digest, LedgerDamageError) or (digest.rows, digest.last_hash) == (plain.rows, plain.last_hash)
        ):
            del kept[path]
    return kept


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
        members.setdefault(run.declared.cohort, []).append(run.declared.run_id)
    return tuple(
        Cohort(name, size, tuple(members.get(name, ())))
        for name, (size, _) in sorted(declared.items())
        if name not in contradicted
    )


class _Journals:
    """The journals of one directory, by their kind."""

    def __init__(self, directory: Path, journals: list[JournalContent]) -> None:
        """Sort them.

        Raises:
            LedgerDamageError: If two of them claim to be the same journal, or one is a copy of another.
        """
        self.directory = directory
        self.all = sorted(journals, key=lambda journal: journal.path)
        self.declarations: list[tuple[JournalContent, RunDeclared, datetime]] = []
        self.ranks: dict[int, dict[int, JournalContent]] = {}
        self.supervisions: dict[int, dict[int, JournalContent]] = {}
        self.telemetries: dict[int, dict[int, JournalContent]] = {}
        self.evaluations: list[JournalContent] = []
        """Journals with scores, by their start."""
        self.run_ids: list[tuple[JournalContent, str]] = []
        """The run that each journal names."""
        self.anchored: list[Anchored] = []
        scored: list[tuple[str, JournalContent]] = []
        originals: dict[str, JournalContent] = {}
        for journal in self.all:
            for place in journal.digest.places[:1]:
                original = originals.setdefault(place.hash, journal)
                # The telemetry of two evaluations may begin in the same millisecond, with the same row.
                if original is not journal and place.kind != TelemetryStarted.__name__:
                    raise LedgerDamageError(journal.path, 1, f"it is a copy of {original.path.name}")
            self._sort(journal)
            results = journal.places(PanelResult)
            if results and not journal.places(AttemptStarted):
                scored.append((results[0].time, journal))
        self.evaluations = [journal for _, journal in sorted(scored, key=itemgetter(0))]

    def _sort(self, journal: JournalContent) -> None:
        """Register a journal under its kind."""
        self.declarations += ((journal, row, time) for row, time in journal.timed(RunDeclared))
        self.run_ids += ((journal, score.run_id) for score in journal.digest.scores)
        rows: list[AttemptStarted | SupervisionStarted | TelemetryStarted | EvaluationStarted]
        for start in (rows := journal.of(AttemptStarted)):
            self._claim(self.ranks, start.attempt, start.rank, journal, "rank")
        for supervision in journal.of(SupervisionStarted):
            rows.append(supervision)
            if supervision.attempt is not None:
                self._claim(self.supervisions, supervision.attempt, supervision.rank, journal, "the supervisor of rank")
        for telemetry in journal.of(TelemetryStarted):
            rows.append(telemetry)
            if telemetry.attempt is not None:
                self._claim(self.telemetries, telemetry.attempt, telemetry.rank, journal, "the telemetry of rank")
        rows += journal.of(EvaluationStarted)
        self.run_ids += ((journal, row.run_id) for row in rows)
        anchors = [row.anchors for row in journal.of(AttemptStarted)]
        anchors += [row.anchors for row in journal.of(EvaluationStarted)]
        anchors += [row.anchors for row in journal.of(ShutdownEnded)]
        self.anchored += (Anchored(name, anchor, journal.path) for each in anchors for name, anchor in each.items())

    @staticmethod
    def _claim(
        owners: dict[int, dict[int, JournalContent]], attempt: int, rank: int, journal: JournalContent, what: str
    ) -> None:
        """Register a journal under its owner."""
        other = owners.setdefault(attempt, {}).setdefault(rank, journal)
        if other is not journal:
            raise LedgerDamageError(
                journal.path, 1, f"{other.path.name} claims to be {what} {rank} of attempt {attempt}, too"
            )

    def attempt(self, number: int) -> Attempt:
        """Return an attempt."""
        kinds = (self.ranks, self.supervisions, self.telemetries)
        return Attempt(
            number, *(tuple(content for _, content in sorted(each.get(number, {}).items())) for each in kinds)
        )

    @property
    def numbers(self) -> set[int]:
        """Numbers of all attempts, including those that never wrote a row."""
        named = (re.match(r"journal-(\d{1,9})-", journal.path.name) for journal in self.all)
        return {*self.ranks, *self.supervisions, *(int(found[1]) for found in named if found)}


def _assemble_live(directory: Path, journals: list[JournalContent]) -> Run | None:
    """Build the run of one directory's journals, while its processes may be writing.

    The journals were read one after the other, so a journal may refer to rows that were written after the other journal
    was read. Before a missing row counts as damage, all journals are read again. The same is done where a journal was
    deleted or compressed since it was read.

    Raises:
        LedgerDamageError: As for :func:`_assemble`.
        UserError: If a journal can't be read.
    """
    try:
        return _assemble(directory, journals, journals)
    except UserError:  # damage is one, too
        later = _read_again(directory)
    kept = {journal.path for journal in later}
    return _assemble(directory, journals if all(each.path in kept for each in journals) else later, later)


def _read_again(directory: Path) -> list[JournalContent]:
    """Read all journals of one directory.

    Raises:
        LedgerDamageError: If one is damaged.
        UserError: If one can't be read.
    """
    found: dict[Path, Digest | LedgerDamageError] = {}
    for path in find_journals(directory):
        if path.parent == directory:
            try:
                found[path] = digest_journal(path, thorough=False)[1]
            except LedgerDamageError as damage:
                found[path] = damage
            except FileNotFoundError:
                continue
            except OSError as error:
                raise UserError(f"cannot read {path}: {error.strerror}") from error
    journals = []
    for path, digest in _without_drafts(found).items():
        if isinstance(digest, LedgerDamageError):
            raise digest
        journals.append(JournalContent.stored(path, digest))
    return journals


def _assemble(directory: Path, journals: list[JournalContent], later: list[JournalContent]) -> Run | None:
    """Build the run of one directory's journals; ``None`` if none declares a run.

    Args:
        directory: The directory.
        journals: Its journals.
        later: All of its journals, read at the same time or later. They must contain everything that ``journals`` refer
            to.

    Raises:
        LedgerDamageError: If the journals cannot be those of one run, or one of them is missing or was cut short.
    """
    found = _Journals(directory, journals)
    if not found.declarations:
        _require_undeclared(found, later)
        return None
    first, declared, declared_at = found.declarations[0]
    for journal, *_ in found.declarations[1:]:
        raise LedgerDamageError(journal.path, 1, f"run {declared.run_id} is declared here already")
    for journal, run_id in found.run_ids:
        if run_id != declared.run_id:
            raise LedgerDamageError(
                journal.path, 1, f"it belongs to run {run_id}, and {first.path.name} declares run {declared.run_id}"
            )
    require_anchored(found.anchored, _by_name(later))
    numbers = found.numbers
    for number in range(1, max(numbers, default=0)):
        if number not in numbers:
            raise LedgerDamageError(directory, 1, f"attempt {number} of {max(numbers)} is missing")
    for number, ranks in found.ranks.items():
        for rank, journal in ranks.items():
            if rank >= declared.world_size:
                what = f"it is rank {rank} of attempt {number} of a run of {declared.world_size} processes"
                raise LedgerDamageError(journal.path, 1, what)
    attempts = tuple(map(found.attempt, sorted({*found.ranks, *found.supervisions})))
    run = Run(directory, declared, declared_at, attempts, tuple(found.evaluations))
    _require_references(found.all, later)
    return run


def _by_name(journals: Sequence[JournalContent]) -> dict[str, tuple[Path, Digest]]:
    """Return paths and digests of journals by their names, without the ending of a compressed one."""
    return {each.path.name.removesuffix(COMPRESSED): (each.path, each.digest) for each in journals}


def _require_undeclared(found: _Journals, later: Sequence[JournalContent]) -> None:
    """Refuse attempts without a declaration of their run, unless it may still be written, or never was.

    The first process declares the run before it does anything else. So where it left nothing, it ended before that,
    while the others had begun.
    """
    numbers = {*found.ranks, *found.supervisions}
    began = numbers - {1} or any(0 in of_attempt.get(1, {}) for of_attempt in (found.ranks, found.supervisions))
    if (
        began
        and not any(journal.places(RunDeclared) for journal in later)
        and not any(found.attempt(number).shows_life() for number in numbers)
    ):
        raise LedgerDamageError(found.directory, 1, "the declaration of its run is missing")
    require_anchored(found.anchored, _by_name(later))


def _require_references(journals: Sequence[JournalContent], later: Sequence[JournalContent]) -> None:
    """Refuse scores of unsaved checkpoints, and attempts that resumed from an unsaved state."""
    saved = {(row.path, row.sha256) for journal in later for row in journal.of(CheckpointSaved)}
    states = {row.sha256 for journal in later for row in journal.of(StateSaved)}
    for journal in journals:
        for score in journal.digest.scores:
            if (score.checkpoint, score.sha256) not in saved:
                what = f"it scores {score.checkpoint} ({score.sha256[:12]}…), which no attempt of the run saved"
                raise LedgerDamageError(journal.path, 1, what)
        for row in journal.of(StateRestored):
            if row.sha256 not in states:
                what = f"it resumes from a state of attempt {row.attempt} that no attempt of the run saved"
                raise LedgerDamageError(journal.path, 1, what)
