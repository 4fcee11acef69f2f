"""The trainings of a search: what the ledger says of them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import AttemptStarted, Cohort, LedgerDamageError, Run, StateSaved, read_ledger
from ledger_lab.ledger.compressed import open_journal
from ledger_lab.panels import few_differences
from ledger_lab.reports import summarize_run
from ledger_lab.studies.commands.search_scores import last_return, last_success
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import Values
from ledger_lab.studies.search.trial_recipe import recorded_values
from ledger_lab.studies.search.trials import (
    STOCK,
    Outcome,
    Place,
    Record,
    SearchTraining,
    SeedRun,
    Trial,
    cohort_of,
    gather,
    outcome_of,
    place_of,
)
from ledger_lab.tasks.recipes.rules import positive

_BEGINNING_BYTES = 1 << 20
"""How much of a damaged journal is read to find its cohort [B]: a small file may decompress to gigabytes."""


@dataclass(frozen=True)
class Waiting:
    """A training that waits or runs on a cluster."""

    values: Values
    cap_s: float | None
    """Time that it may take [s]; ``None`` without a limit."""
    since_s: float
    """When it was submitted, in seconds since 1970 [s]."""
    checkpoint: str | None = None
    """Id of the run whose last policy it begins with; ``None`` for random networks."""


class SearchRuns:
    """The trainings of a search, as the ledger shows them."""

    def __init__(
        self, declaration: SearchDeclaration, log_root: Path, waiting: Mapping[SearchTraining, Waiting] | None = None
    ) -> None:
        """Read the ledger.

        Args:
            declaration: The search.
            log_root: Root of the ledger.
            waiting: Trainings that wait or run on a cluster, whether or not the ledger shows them.

        Raises:
            UserError: If the ledger holds trainings that this search can't have started.
        """
        self.declaration, self.log_root = declaration, log_root
        self.runs: dict[SearchTraining, list[Run]] = defaultdict(list)
        """Runs of each training, oldest first. There are several if one was interrupted before it saved a state."""
        ledger = read_ledger(log_root.resolve(), tolerate_damage=True)
        self.damage = ledger.damage
        """Damage of the ledger. Runs with damage are left out."""
        for run in ledger.runs:
            place = place_of(declaration, run.cohort)
            if place is not None and run.attempts:
                self.runs[SearchTraining(place, run.declared.seed)].append(run)
        self.skipped = frozenset(_skipped(declaration, ledger.cohorts))
        """Numbers of trials whose values ``train.py`` has refused."""
        self._trial_of_run = {
            run.run_id: training.place.trial
            for training, runs in self.runs.items()
            for run in runs
            if not training.place.sealed
        }
        self._require_one_panel()
        records = [record for training, runs in self.runs.items() for record in self._records(training, runs)]
        begun = {training: self._parent(training.place, each.checkpoint) for training, each in (waiting or {}).items()}
        self.trials: tuple[Trial, ...] = gather(declaration, with_waiting(records, waiting or {}, begun))
        """The trials, by number."""

    def _require_one_panel(self) -> None:
        """Refuse runs that were not trained to the same target on the same panel: their times can't be compared."""
        declared = [run.declared for runs in self.runs.values() for run in runs]
        for one, other in itertools.pairwise(declared):
            if (one.panel_id, one.target_success) != (other.panel_id, other.target_success):
                what = few_differences(
                    {**one.panel_fields, "target": one.target_success},
                    {**other.panel_fields, "target": other.target_success},
                )
                raise UserError(
                    f"search {self.declaration.name}: runs {one.run_id} and {other.run_id} were scored differently: "
                    f"{what}: restore the panel, the task and the packages, and move away the runs that differ"
                )

    def require_whole(self) -> None:
        """Refuse to go on while a training of the search may be left out: it would be trained and paid for again.

        Raises:
            UserError: If there may be one.
        """
        stem = self.declaration.cohort_stem.encode()
        if found := next((each for each in self.damage if _may_hold(each.path, stem)), None):
            raise UserError(
                f"search {self.declaration.name}: a training of it may be left out: {found}: restore it, or move it "
                "out of the ledger"
            )

    def outcome(self, training: SearchTraining) -> Outcome | None:
        """Return how a training stands; ``None`` if it has not been started."""
        place, seed = training.place, training.seed
        found = (
            run.outcome
            for trial in self.trials
            if trial.number == place.trial
            for run in trial.runs
            if (run.seed, run.repeat, run.sealed) == (seed, place.repeat, place.sealed)
        )
        return next(found, None)

    def ended_run(self, training: SearchTraining) -> Run:
        """Return the run in which a training ended.

        Args:
            training: The training.

        Raises:
            UserError: If there is none.
        """
        ended = [run for run in self.runs.get(training, []) if _outcome(run).is_final]
        if not ended:
            raise UserError(
                f"search {self.declaration.name}: the run of cohort {cohort_of(self.declaration, training.place)} with "
                f"seed {training.seed} is missing, whose policy the next training begins with: restore it"
            )
        return ended[-1]

    def _records(self, training: SearchTraining, runs: Sequence[Run]) -> Iterable[Record]:
        """Return the records of a training: one, or one for each run that has ended if there are several."""
        values = [self._values(run, training.place) for run in runs]
        if any(each != values[-1] for each in values):
            raise UserError(
                f"search {self.declaration.name}: runs {', '.join(run.run_id for run in runs)} of cohort "
                f"{runs[0].cohort} have different values: move away those that the search did not start"
            )
        ended = [run for run in runs if _outcome(run).is_final]
        others = [run for run in runs if run not in ended]
        if len(ended) > 1:  # a training has one result: gather() refuses these records
            return [self._record(training, values[-1], [run]) for run in ended]
        return [self._record(training, values[-1], [*others, *ended])]

    def _record(self, training: SearchTraining, values: Values, runs: Sequence[Run]) -> Record:
        """Return the record of a training."""
        run, last = _seed_run(training, runs), runs[-1]
        if self.declaration.population is None:
            return Record(training.place, values, run)
        if run.outcome.is_final:
            run = replace(run, success=last_success(last))
        if run.success == 0 and not training.place.sealed:
            run = replace(run, mean_return=last_return(last))
        began = last.declared.began_from or {}
        return Record(training.place, values, run, self._parent(training.place, began.get("run_id")))

    def _parent(self, place: Place, run_id: str | None) -> int | None:
        """Return the trial of a population whose last policy a training began with."""
        if run_id is None or place.sealed or self.declaration.population is None:
            return None
        if run_id not in self._trial_of_run:
            raise UserError(
                f"search {self.declaration.name}: cohort {cohort_of(self.declaration, place)} began with a policy of "
                f"run {run_id}, which is no training of this search, or is missing: restore it"
            )
        return self._trial_of_run[run_id]

    def _values(self, run: Run, place: Place) -> Values:
        """Return the values of a trial, as one of its runs recorded them."""
        try:
            return recorded_values(
                self.declaration, run.declared.recipe, run.declared.rl_library, is_stock=place.trial == STOCK
            )
        except UserError as error:
            raise UserError(
                f"search {self.declaration.name}: run {run.run_id}: {error}: move it away, because the search can't "
                "have started it"
            ) from error


def with_waiting(
    records: Iterable[Record],
    waiting: Mapping[SearchTraining, Waiting],
    parents: Mapping[SearchTraining, int | None],
) -> list[Record]:
    """Return the records of the ledger, and those of the trainings on a cluster, which count as running.

    Args:
        records: What the ledger says.
        waiting: The trainings that wait or run on a cluster.
        parents: For each of them, the trial whose last policy it begins with.
    """
    found = []
    seen = set()
    for record in records:
        training = SearchTraining(record.place, record.run.seed)
        seen.add(training)
        if training in waiting and not record.run.outcome.is_final:
            record = record._replace(run=replace(record.run, outcome=Outcome.RUNNING))
        found.append(record)
    for training, each in waiting.items():
        if training not in seen:
            run = SeedRun(
                seed=training.seed,
                outcome=Outcome.RUNNING,
                wall_s=0.0,
                usd=None,
                cap_s=each.cap_s,
                started_s=each.since_s,
                repeat=training.place.repeat,
                sealed=training.place.sealed,
            )
            found.append(Record(training.place, each.values, run, parents[training]))
    return found


def _skipped(declaration: SearchDeclaration, cohorts: Iterable[Cohort]) -> Iterable[int]:
    """Yield the trials of a race whose cohorts are declared and have no run: ``train.py`` has refused their values."""
    for cohort in cohorts:
        place = place_of(declaration, cohort.name)
        if place is not None and place == Place(place.trial) and not cohort.run_ids:
            yield place.trial


def _seed_run(training: SearchTraining, runs: Sequence[Run]) -> SeedRun:
    """Return how a training stands. Runs before the last one were interrupted before they saved a state."""
    last, summaries = runs[-1], [summarize_run(run) for run in runs]
    wall_s = sum(summary.wall_s for summary in summaries)
    usd = [summary.declared_usd for summary in summaries]
    limit_s = _limit_s(last)
    cap_s = None if limit_s is None else limit_s + sum(summary.wall_s for summary in summaries[:-1])
    outcome = _outcome(last, _attempts_without_state(runs))
    if outcome is Outcome.INTERRUPTED and cap_s is not None and wall_s >= cap_s:
        outcome = Outcome.CAPPED  # it had used up its time when it was interrupted
    summary, start = summaries[-1], last.attempts[0].first_start  # speed and machine are those of the same run
    return SeedRun(
        seed=training.seed,
        outcome=outcome,
        wall_s=wall_s,
        usd=None if any(each is None for each in usd) else sum(each for each in usd if each is not None),
        cap_s=cap_s,
        started_s=runs[0].declared_at.timestamp(),
        ended_s=max(journal.last_time for journal in last.attempts[-1].journals).timestamp(),
        machine="" if start is None else _machine(start),
        step_s=summary.train_s / summary.env_steps if summary.train_s and summary.env_steps else None,
        repeat=training.place.repeat,
        sealed=training.place.sealed,
    )


def _machine(start: AttemptStarted) -> str:
    """Return where an attempt started. On Kubernetes, this is the node, because each pod has a host name of its own."""
    on_kubernetes = start.job is not None and start.job.engine == "kubernetes" and start.job.nodes
    return start.job.nodes[0] if start.job is not None and on_kubernetes else start.host


def _outcome(run: Run, attempts: int = 0) -> Outcome:
    """Return how a training stands. Its time is known only when its processes have ended.

    Args:
        run: Its latest run.
        attempts: Number of its latest attempts that saved no state.
    """
    outcome = outcome_of(run.attempts[-1].status, attempts)
    if outcome in (Outcome.REACHED, Outcome.RUNNING):
        return outcome
    return Outcome.REACHED if run.proven else outcome


def _attempts_without_state(runs: Sequence[Run]) -> int:
    """Return the number of the latest attempts of a training that saved no state."""
    attempts = [attempt for run in runs for attempt in run.attempts]
    saved = (number for number, attempt in enumerate(reversed(attempts)) if attempt.of(StateSaved))
    return next(saved, len(attempts))


def _limit_s(run: Run) -> float | None:
    """Return the limit that a run was started with [s]; ``None`` without a limit.

    Raises:
        UserError: If it is no limit.
    """
    found: object = (run.declared.request or {}).get("limit_s")
    if found is None:
        return None
    if isinstance(found, int | float) and positive(found) is None:
        return float(found)
    raise UserError(f"run {run.run_id}: limit_s {found!r} is no time: move it away, because no search started it")


def _may_hold(path: Path, cohort: bytes) -> bool:
    """Tell whether damaged journals may be those of a run of some cohorts; true if they don't tell their cohort.

    Args:
        path: A journal, or a directory.
        cohort: Beginning of the names of the cohorts.
    """
    directory = path if path.is_dir() else path.parent
    journals = sorted(directory.glob("journal-*"))
    if not all(each.is_file() for each in journals):  # reading a pipe would never end
        return True
    try:
        written = b"".join(map(_beginning, journals))
    except (OSError, LedgerDamageError):
        return True
    return cohort in written or b'"cohort":' not in written


def _beginning(journal: Path) -> bytes:
    """Return the beginning of a journal, compressed or not; the first row of a run tells its cohort."""
    with open_journal(journal) as file:
        return file.read(_BEGINNING_BYTES)
