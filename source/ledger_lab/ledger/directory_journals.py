"""The journals of one directory, sorted by their writers: ranks and supervisors of attempts, and evaluations."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ledger_lab.ledger.anchors import Anchored
from ledger_lab.ledger.content import JournalContent
from ledger_lab.ledger.declarations import RunDeclared
from ledger_lab.ledger.listing import LedgerDamageError
from ledger_lab.ledger.results import PanelResult
from ledger_lab.ledger.rows import AttemptStarted, EvaluationStarted, ShutdownEnded, SupervisionStarted
from ledger_lab.ledger.runs import Attempt, Evaluation, attempt_number, evaluation_name
from ledger_lab.ledger.telemetry import TelemetryStarted


class DirectoryJournals:
    """The journals of one directory, by their kind."""

    def __init__(self, directory: Path, journals: list[JournalContent]) -> None:
        """Sort them.

        Raises:
            LedgerDamageError: If two of them claim to be the same journal, one is a copy of another, or one has two
                writers.
        """
        self.directory = directory
        self.all = sorted(journals, key=lambda journal: journal.path.name)
        self.declarations: list[tuple[JournalContent, RunDeclared, datetime]] = []
        self.ranks: dict[int, dict[int, JournalContent]] = {}
        self.supervisions: dict[int, dict[int, JournalContent]] = {}
        self.telemetries: dict[int, dict[int, JournalContent]] = {}
        self.evaluations: list[Evaluation] = []
        """Stand-alone evaluations, by their first scores; those without scores, by their start."""
        self.run_ids: list[tuple[JournalContent, str]] = []
        """The run that each journal names."""
        self.anchored: list[Anchored] = []
        self._shares: dict[str, float] = {}
        """Share of the scored checkpoints that are this run's, by evaluation."""
        self._evaluated: dict[str, list[JournalContent]] = {}
        """Journals of each evaluation, by its name."""
        originals: dict[str, JournalContent] = {}
        for journal in self.all:
            for place in journal.digest.places[:1]:
                original = originals.setdefault(place.hash, journal)
                # The telemetry of two evaluations may begin in the same millisecond, with the same row.
                if original is not journal and place.kind != TelemetryStarted.__name__:
                    raise LedgerDamageError(journal.path, 1, f"it is a copy of {original.path.name}")
            for kind in (AttemptStarted, SupervisionStarted, TelemetryStarted):
                if len(journal.places(kind)) > 1:
                    line = journal.places(kind)[1].sequence + 1
                    raise LedgerDamageError(
                        journal.path, line, "a second process started here: each has its own journal"
                    )
            self._sort(journal)
        found = [Evaluation(tuple(own), self._shares.get(name, 1.0)) for name, own in self._evaluated.items()]
        self.evaluations = sorted(found, key=_began)

    def _sort(self, journal: JournalContent) -> None:
        """Register a journal under its kind."""
        self.declarations += ((journal, row, time) for row, time in journal.timed(RunDeclared))
        self.run_ids += ((journal, score.run_id) for score in journal.digest.scores)
        rows: list[AttemptStarted | SupervisionStarted | TelemetryStarted | EvaluationStarted]
        of_evaluation = bool(journal.places(PanelResult)) and not journal.places(AttemptStarted)
        for start in (rows := journal.of(AttemptStarted)):
            self._claim(self.ranks, start.attempt, start.rank, journal, "rank")
        for supervision in journal.of(SupervisionStarted):
            rows.append(supervision)
            if supervision.attempt is not None:
                self._claim(self.supervisions, supervision.attempt, supervision.rank, journal, "the supervisor of rank")
            of_evaluation |= supervision.attempt is None
        for telemetry in journal.of(TelemetryStarted):
            rows.append(telemetry)
            if telemetry.attempt is not None:
                self._claim(self.telemetries, telemetry.attempt, telemetry.rank, journal, "the telemetry of rank")
            of_evaluation |= telemetry.attempt is None
        for evaluation in journal.of(EvaluationStarted):
            rows.append(evaluation)
            of_evaluation = True
            if evaluation.all_checkpoints is not None:
                share = len(evaluation.checkpoints) / evaluation.all_checkpoints
                self._shares[evaluation_name(journal.path)] = share
        if of_evaluation:
            self._evaluated.setdefault(evaluation_name(journal.path), []).append(journal)
        self.run_ids += ((journal, row.run_id) for row in rows)
        anchoring: list[tuple[AttemptStarted | EvaluationStarted | ShutdownEnded, datetime]] = []
        anchoring += journal.timed(AttemptStarted)
        anchoring += journal.timed(EvaluationStarted)
        anchoring += journal.timed(ShutdownEnded)
        for row, time in anchoring:
            self.anchored += (Anchored(name, each, journal.path, time) for name, each in row.anchors.items())

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

    def began_after(self, number: int) -> datetime:
        """Return when the first attempt after another one began; the earliest time if no row tells it."""
        times = [each.first_time for each in self.all if each.count and (attempt_number(each.path) or 0) > number]
        return min(times, default=datetime.min.replace(tzinfo=UTC))

    @property
    def numbers(self) -> set[int]:
        """Numbers of all attempts, including those that never wrote a row."""
        named = {attempt_number(journal.path) for journal in self.all}
        return {*self.ranks, *self.supervisions} | {number for number in named if number is not None}


def _began(evaluation: Evaluation) -> str:
    """Return when an evaluation wrote its first score; without scores, when its first row was written."""
    scored = [place.time for journal in evaluation.journals for place in journal.places(PanelResult)[:1]]
    return min(scored or [journal.digest.first_time for journal in evaluation.journals])
