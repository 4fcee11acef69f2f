"""Builds a run from the journals of its directory, and detects journals that are missing, cut, copied or foreign."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ledger_lab.ledger.anchors import require_anchored
from ledger_lab.ledger.content import ARRIVES_WITHIN_NS, JournalContent
from ledger_lab.ledger.declarations import RunDeclared
from ledger_lab.ledger.listing import LedgerDamageError
from ledger_lab.ledger.rows import (
    AttemptStarted,
    CheckpointSaved,
    EvaluationStarted,
    StateRestored,
    StateSaved,
    Status,
    SupervisionStarted,
)
from ledger_lab.ledger.runs import Attempt, Evaluation, Run, attempt_number, evaluation_name
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
    return _Directory(directory, journals).run()


class _Directory:
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
