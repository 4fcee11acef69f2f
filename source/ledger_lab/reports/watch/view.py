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
from ledger_lab.reports.watch.model import (
    Alert,
    Limits,
    PlannedStudy,
    QueuedTraining,
    RunProgress,
    Spend,
    State,
    Watch,
)
from ledger_lab.reports.watch.progress import WatchedRun, has_changed, near_runs, run_time, settings_of, state_of
from ledger_lab.reports.watch.spend import cohort_spend, study_spend


def watch_ledger(
    ledger: Ledger,
    *,
    now: datetime,
    studies: Sequence[PlannedStudy] = (),
    asked: Collection[str] = (),
    queues: Sequence[QueuedTraining] = (),
    limits: Limits | None = None,
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
        limits: Thresholds.
        price: Price that replaces the declared prices.
        notes: What could not be found out, to pass on.
    """
    watcher = _Watcher(ledger, now, limits or Limits(), price, studies, queues)
    recent = watcher.watch_all(watcher.recent())
    told = [each for each in recent if watcher.is_told(each)]
    waiting = watcher.waiting()
    active = {each.study for each in recent} | {job.plan for job in queues} | set(asked)
    spends = [watcher.study(study) for study in studies if study.name in active]
    cohorts = sorted({each.run.cohort for each in told if each.run.cohort is not None})
    return Watch(
        at=now,
        log_root=str(ledger.root),
        runs=(*(each.progress for each in told), *map(watcher.waiting_training, waiting)),
        cohorts=tuple(watcher.cohort(name) for name in cohorts),
        studies=tuple(sorted(spends, key=lambda each: each.name)),
        alerts=most_severe_first(watcher.alerts(recent, told, waiting, spends)),
        notes=(*notes, *watcher.notes),
    )


@dataclass
class _Watcher:
    """A ledger at one time. Each run is summed up once."""

    ledger: Ledger
    now: datetime
    limits: Limits
    price: Price | None
    studies: Sequence[PlannedStudy]
    queues: Sequence[QueuedTraining]
    notes: list[str] = field(default_factory=list)
    """Runs that can't be read any more."""
    _times: dict[str, RunTime] = field(default_factory=dict)
    _watched: dict[str, WatchedRun | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look up the jobs of runs, and the studies of cohorts."""
        self._jobs: dict[Path, QueuedTraining] = {
            job.run_directory: job for job in self.queues if job.run_directory is not None
        }
        self._study_of_cohort = {arm.cohort: study.name for study in self.studies for arm in study.arms}

    def recent(self) -> list[Run]:
        """Return the runs that changed lately, or whose job goes on, oldest first."""
        since = self.now - timedelta(seconds=self.limits.forget_after_s)
        return [run for run in self.ledger.runs if has_changed(run, since) or self._job(run) is not None]

    def watch_all(self, runs: Iterable[Run]) -> list[WatchedRun]:
        """Return runs with their states, without those that were removed or damaged since the ledger was read."""
        return [watched for run in runs if (watched := self._watch(run)) is not None]

    def _watch(self, run: Run) -> WatchedRun | None:
        """Return a run with its state; ``None`` if it can't be read any more."""
        if run.run_id not in self._watched:
            try:
                self._watched[run.run_id] = self._looked_at(run)
            except UserError as error:  # one run must not silence the alerts about others
                self._watched[run.run_id] = None
                self.notes.append(f"run {run.run_id}: {error}")
        return self._watched[run.run_id]

    def _looked_at(self, run: Run) -> WatchedRun:
        """Return a run with its state.

        Raises:
            UserError: If it can't be read any more.
        """
        state = state_of(run, self.now, self.limits)
        watched = WatchedRun(
            run=run,
            state=state,
            earlier=() if state is State.ENDED else tuple(self._earlier(run)),
            job=self._job(run),
            study=None if run.cohort is None else self._study_of_cohort.get(run.cohort),
            asked_price=self.price,
        )
        if state is not State.ENDED:
            _ = watched.progress  # reads what is needed
        return watched

    def is_told(self, watched: WatchedRun) -> bool:
        """Tell whether a run is live, or was preempted or lost lately, and nothing has taken its place."""
        if watched.is_live or (watched.job is not None and watched.state is not State.ENDED):
            return True
        age_s = (self.now - watched.last_row_at).total_seconds()
        if watched.state not in (State.LOST, State.PREEMPTED) or age_s > self.limits.forget_after_s:
            return False
        return not self._is_superseded(watched.run)

    def _is_superseded(self, run: Run) -> bool:
        """Tell whether a later run of the same cohort and seed has taken the place of a run."""
        for other in self.ledger.runs:
            if run.cohort is not None and other.cohort == run.cohort and other.declared_at > run.declared_at:
                with suppress(UserError):
                    if other.declared.seed == run.declared.seed:
                        return True
        return False

    def waiting(self) -> list[QueuedTraining]:
        """Return the trainings without a run in the ledger."""
        known = {run.directory.resolve() for run in self.ledger.runs} if self._jobs else set()
        return [job for job in self.queues if job.run_directory is None or job.run_directory not in known]

    def waiting_training(self, job: QueuedTraining) -> RunProgress:
        """Return the progress of a training that has no run yet."""
        study = next((study.name for study in self.studies if study.name == job.plan), None)
        return RunProgress(
            run_id=None, name=job.name, state=State.QUEUED, said=job.said, since=job.submitted_at, study=study
        )

    def study(self, study: PlannedStudy) -> Spend:
        """Return the spend of a study."""
        return study_spend(study, {arm.cohort: self._members(arm.cohort) for arm in study.arms})

    def cohort(self, name: str) -> Spend:
        """Return the spend of a cohort."""
        declared = next((each for each in self.ledger.cohorts if each.name == name), None)
        return cohort_spend(name, self._members(name), declared)

    def alerts(
        self,
        recent: Sequence[WatchedRun],
        told: Sequence[WatchedRun],
        waiting: Sequence[QueuedTraining],
        studies: Iterable[Spend],
    ) -> list[Alert]:
        """Return all alerts."""
        look = Look(log_root=str(self.ledger.root), now=self.now, limits=self.limits)
        return [
            *(alert for each in told for alert in run_alerts(each, look)),
            *idle_alerts(recent, look),
            *silent_jobs(waiting, look),
            *queue_alerts(self.queues, self._last_rows(recent), look),
            *(alert for study in studies for alert in budget_alerts(study)),
        ]

    def _members(self, cohort: str) -> list[WatchedRun]:
        """Return all runs of a cohort with an attempt, oldest first."""
        own = self.watch_all(run for run in self.ledger.runs if run.cohort == cohort)
        return [each for each in own if each.run.attempts]

    def _last_rows(self, runs: Iterable[WatchedRun]) -> dict[str, datetime]:
        """Return when a run of a job last wrote a row, by job."""
        found: dict[str, datetime] = {}
        for each in runs:
            start = each.run.attempts[-1].first_start if each.run.attempts else None
            if start is not None and start.job is not None:
                at = each.last_row_at
                found[start.job.job] = max(at, found.get(start.job.job, at))
        return found

    def _earlier(self, run: Run) -> Iterator[RunTime]:
        """Yield the times of the other runs with the same settings. They may still go on."""
        for other in near_runs(run, self.ledger.runs):
            with suppress(UserError):  # it can't be read any more, and is noted where it is needed itself
                if other.attempts and settings_of(other.declared) == settings_of(run.declared):
                    yield self._time_of(other)

    def _time_of(self, run: Run) -> RunTime:
        """Return the time of a run to its target, and its whole time."""
        if run.run_id not in self._times:
            self._times[run.run_id] = run_time(run)
        return self._times[run.run_id]

    def _job(self, run: Run) -> QueuedTraining | None:
        """Return the job of a run, if it waits or runs."""
        return self._jobs.get(run.directory.resolve()) if self._jobs else None
