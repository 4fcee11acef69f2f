"""Watches a ledger: progress, spend and alerts at one time.

It opens only the runs that it needs: those that changed lately, those of their cohorts and studies, and earlier runs
with the same settings as a live run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger import Ledger, Run
from ledger_lab.ledger.costs import Price, RunTime
from ledger_lab.reports.watch.alerts import (
    Look,
    budget_alerts,
    idle_alerts,
    most_severe_first,
    queue_alerts,
    run_alerts,
    silent_jobs,
)
from ledger_lab.reports.watch.model import FORGET_AFTER_S, PlannedStudy, QueuedTraining, RunProgress, State, Watch
from ledger_lab.reports.watch.progress import WatchedRun, has_changed, near_runs, run_time, settings_of, state_of
from ledger_lab.reports.watch.spend import Arm, spend, study_spend


def watch_ledger(
    ledger: Ledger,
    *,
    now: datetime,
    studies: Sequence[PlannedStudy] = (),
    asked: Collection[str] = (),
    queues: Sequence[QueuedTraining] = (),
    price: Price | None = None,
    notes: Sequence[str] = (),
) -> Watch:
    """Find out which runs go on, what they will cost, and what wastes money.

    Args:
        ledger: The ledger.
        now: The time. Whether a run is lost does not depend on it: the ledger decides that by its own clock.
        studies: Studies that runs may belong to. Only those with a run or a job that changed lately are summed up.
        asked: Names of studies that are summed up in any case.
        queues: Trainings that wait or run, according to their schedulers.
        price: Price that replaces the declared prices.
        notes: What could not be found out, to pass on.
    """
    look = Look(log_root=str(ledger.root), now=now)
    runs = _Runs(ledger, look, price, studies, queues)
    since = now - timedelta(seconds=FORGET_AFTER_S)
    recent = runs.watched(run for run in ledger.runs if has_changed(run, since) or runs.job(run) is not None)
    told = [each for each in recent if runs.is_told(each)]
    known = {run.directory.resolve() for run in ledger.runs} if queues else set()
    waiting = [job for job in queues if job.run_directory is None or job.run_directory not in known]

    active = {each.study for each in recent} | {job.plan for job in queues} | set(asked)
    spends = [
        study_spend(study, {arm.cohort: runs.of_cohort(arm.cohort) for arm in study.arms})
        for study in sorted(studies, key=lambda each: each.name)
        if study.name in active
    ]
    sizes = {cohort.name: cohort.size for cohort in ledger.cohorts}
    names = sorted({each.run.cohort for each in told if each.run.cohort is not None})
    alerts = [
        *(alert for each in told for alert in run_alerts(each, look)),
        *idle_alerts(recent, look),
        *silent_jobs(waiting, look),
        *queue_alerts(queues, _last_rows(recent), look),
        *(alert for study in spends for alert in budget_alerts(study)),
    ]
    return Watch(
        at=now,
        log_root=look.log_root,
        runs=(*(each.progress for each in told), *(_waiting_training(job, studies) for job in waiting)),
        cohorts=tuple(
            spend("cohort", name, [Arm(cohort=name, planned=sizes.get(name), runs=tuple(runs.of_cohort(name)))])
            for name in names
        ),
        studies=tuple(spends),
        alerts=most_severe_first(alerts),
        notes=(*notes, *runs.unread),
    )


def _waiting_training(job: QueuedTraining, studies: Iterable[PlannedStudy]) -> RunProgress:
    """Return the progress of a training that has no run yet."""
    study = next((study.name for study in studies if study.name == job.plan), None)
    return RunProgress(
        run_id=None, name=job.name, state=State.QUEUED, said=job.said, since=job.submitted_at, study=study
    )


def _last_rows(runs: Iterable[WatchedRun]) -> dict[str, datetime]:
    """Return when a run of a job last wrote a row, by job."""
    found: dict[str, datetime] = {}
    for each in runs:
        start = each.run.attempts[-1].first_start if each.run.attempts else None
        if start is not None and start.job is not None:
            found[start.job.job] = max(each.last_row_at, found.get(start.job.job, each.last_row_at))
    return found


@dataclass
class _Runs:
    """The runs of a ledger at one time. Each is summed up once."""

    ledger: Ledger
    look: Look
    price: Price | None
    studies: Sequence[PlannedStudy]
    queues: Sequence[QueuedTraining]
    unread: list[str] = field(default_factory=list)
    """What can't be read any more."""
    _times: dict[str, RunTime] = field(default_factory=dict)
    _watched: dict[str, WatchedRun | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look up the jobs of runs, and the studies of cohorts."""
        self._jobs: dict[Path | None, QueuedTraining] = {job.run_directory: job for job in self.queues}
        self._study_of_cohort = {arm.cohort: study.name for study in self.studies for arm in study.arms}

    def job(self, run: Run) -> QueuedTraining | None:
        """Return the job of a run, if it waits or runs."""
        return self._jobs.get(run.directory.resolve()) if self._jobs else None

    def of_cohort(self, cohort: str) -> list[WatchedRun]:
        """Return all runs of a cohort with an attempt, oldest first."""
        own = self.watched(run for run in self.ledger.runs if run.cohort == cohort)
        return [each for each in own if each.run.attempts]

    def watched(self, runs: Iterable[Run]) -> list[WatchedRun]:
        """Return runs with their states, without those that were removed or damaged since the ledger was read."""
        runs = [*runs]
        for run in runs:
            if run.run_id not in self._watched:
                self._watched[run.run_id] = None
                try:
                    self._watched[run.run_id] = self._watch(run)
                except UserError as error:  # one run must not silence the alerts about others
                    self.unread.append(f"run {run.run_id}: {error}")
        return [each for run in runs if (each := self._watched[run.run_id]) is not None]

    def _watch(self, run: Run) -> WatchedRun:
        """Return a run with its state.

        Raises:
            UserError: If it can't be read any more.
        """
        state = state_of(run, self.look.now)
        watched = WatchedRun(
            run=run,
            state=state,
            earlier=() if state is State.ENDED else tuple(self._earlier(run)),
            job=self.job(run),
            study=None if run.cohort is None else self._study_of_cohort.get(run.cohort),
            asked_price=self.price,
        )
        if state is not State.ENDED:
            _ = watched.progress  # reads what is needed
        return watched

    def _earlier(self, run: Run) -> Iterator[RunTime]:
        """Yield the times of the other runs with the same settings. They may still go on."""
        for other in near_runs(run, self.ledger.runs):
            with suppress(UserError):  # it can't be read any more, and is noted where it is needed itself
                if other.attempts and settings_of(other.declared) == settings_of(run.declared):
                    if other.run_id not in self._times:
                        self._times[other.run_id] = run_time(other)
                    yield self._times[other.run_id]

    def is_told(self, watched: WatchedRun) -> bool:
        """Tell whether a run is live, or was preempted or lost lately, and nothing has taken its place."""
        if watched.is_live or (watched.job is not None and watched.state is not State.ENDED):
            return True
        if watched.state not in (State.LOST, State.PREEMPTED):
            return False
        is_old = self.look.seconds(watched.last_row_at) > FORGET_AFTER_S
        return not is_old and not self._is_superseded(watched.run)

    def _is_superseded(self, run: Run) -> bool:
        """Tell whether a later run of the same cohort and seed has taken the place of a run."""
        for other in self.ledger.runs:
            if run.cohort is not None and other.cohort == run.cohort and other.declared_at > run.declared_at:
                with suppress(UserError):
                    if other.declared.seed == run.declared.seed:
                        return True
        return False
