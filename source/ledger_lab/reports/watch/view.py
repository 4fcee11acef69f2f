"""Watches a ledger: progress, spend and alerts at one time.

It opens only the runs that it needs: those that changed lately, those of their cohorts and studies, and earlier runs
with the same settings as a live run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from ledger_lab.ledger import Ledger, Run
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.reports.columns import summarize
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
from ledger_lab.reports.watch.progress import WatchedRun, has_changed, near_runs, state_of
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
    since = now - timedelta(seconds=FORGET_AFTER_S)
    jobs = {job.run_directory: job for job in queues}
    study_of = {cohort: study.name for study in studies for cohort in study.cohorts}
    known: dict[str, WatchedRun] = {}

    def watch(run: Run) -> WatchedRun:
        if run.run_id not in known:
            known[run.run_id] = WatchedRun(
                run=run,
                state=state_of(run, now),
                near=lambda: map(watch, near_runs(run, ledger.runs)),
                job=jobs.get(run.directory.resolve()) if jobs else None,
                study=None if run.cohort is None else study_of.get(run.cohort),
                asked_price=price,
            )
        return known[run.run_id]

    def of_cohort(cohort: str) -> list[WatchedRun]:
        own = [watch(run) for run in ledger.runs if run.cohort == cohort and run.directory.is_dir()]
        return [each for each in own if each.run.attempts]

    recent = [
        watch(run) for run in ledger.runs if has_changed(run, since) or (jobs and run.directory.resolve() in jobs)
    ]
    told = [each for each in recent if _is_told(each, since, ledger.runs)]
    directories = {run.directory.resolve() for run in ledger.runs} if queues else set()
    waiting = [job for job in queues if job.run_directory is None or job.run_directory not in directories]

    active = {each.study for each in recent} | {job.plan for job in queues} | set(asked)
    spends = [
        study_spend(study, {cohort: of_cohort(cohort) for cohort in study.cohorts})
        for study in sorted(studies, key=lambda each: each.name)
        if study.name in active
    ]
    sizes = {cohort.name: cohort.size for cohort in ledger.cohorts}
    names = sorted({each.run.cohort for each in told if each.run.cohort is not None})
    alerts = [
        *(alert for each in told for alert in run_alerts(each, look)),
        *idle_alerts(recent, look),
        *silent_jobs(waiting, look),
        *queue_alerts(queues, recent, look),
        *(alert for study in spends for alert in budget_alerts(study)),
    ]
    planned = {study.name for study in studies}
    return Watch(
        at=now,
        log_root=look.log_root,
        runs=(
            *(summarize(RunProgress, each) for each in told),
            *(
                RunProgress(
                    name=job.name,
                    state=State.QUEUED,
                    said=job.said,
                    since=job.submitted_at,
                    study=job.plan if job.plan in planned else None,
                )
                for job in waiting
            ),
        ),
        cohorts=tuple(
            spend("cohort", name, [Arm(cohort=name, planned=sizes.get(name), runs=tuple(of_cohort(name)))])
            for name in names
        ),
        studies=tuple(spends),
        alerts=most_severe_first(alerts),
        notes=tuple(notes),
    )


def _is_told(watched: WatchedRun, since: datetime, runs: Iterable[Run]) -> bool:
    """Tell whether a run is live, or was preempted or lost lately, and no later run has taken its place."""
    if watched.is_live or (watched.job is not None and watched.state is not State.ENDED):
        return True
    if watched.state not in (State.LOST, State.PREEMPTED) or watched.last_row_at < since:
        return False
    own = watched.run
    return own.cohort is None or not any(
        other.cohort == own.cohort and other.declared_at > own.declared_at and other.declared.seed == own.declared.seed
        for other in runs
    )
