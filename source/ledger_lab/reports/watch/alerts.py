"""Alerts about runs and their queues. Each rule looks at rows and times only, so it says the same at each call."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from ledger_lab.ledger import STATE_FILE, Attempt, Health, SupervisionStarted
from ledger_lab.ledger.costs import FEWEST_RUNS
from ledger_lab.ledger.meters.health import Event
from ledger_lab.reports.watch.limits import Limits
from ledger_lab.reports.watch.model import Alert, AlertKind, Severity, State
from ledger_lab.reports.watch.progress import WatchedRun
from ledger_lab.reports.watch.queues import QueuedTraining
from ledger_lab.reports.watch.signs import trainer_row_at
from ledger_lab.units import duration, usd

_HOPELESS: Final = (Event.NO_CONVERGENCE,)
"""Health events that say that a run will miss its target. Others may pass, so they are notices."""

_SCRIPTS: Final = "./isaaclab.sh -p scripts"


def run_alerts(watched: WatchedRun, log_root: str, now: datetime, limits: Limits) -> Iterator[Alert]:
    """Yield the alerts about one run.

    Args:
        watched: The run.
        log_root: Root of the ledger, for commands.
        now: The time.
        limits: Thresholds.
    """
    state, job = watched.state, watched.job
    if state is State.HUNG:
        yield _hung(watched, log_root, now)
    elif state is State.SILENT:
        yield _silent(watched, log_root, now)
    elif state is State.LOST and (job is None or (job.runs and job.started_at is None)):
        yield _lost(watched, log_root, now)
    elif state in (State.LOST, State.PREEMPTED) and job is not None:
        yield from silent_jobs([job], watched.last_row_at, watched.usd_per_hour, now, limits)
    if watched.is_live and watched.run.attempts:
        yield from _health(watched)
        yield from _overdue(watched, log_root)


def _hung(watched: WatchedRun, log_root: str, now: datetime) -> Alert:
    """Return the alert about a training that no longer writes, while its supervisor does."""
    since = trainer_row_at(watched.run)
    return _of_run(
        watched,
        AlertKind.HUNG,
        Severity.CRITICAL,
        since,
        f"its supervisor writes rows, and the training has written none for {_ago(since, now)}: it does no work",
        _end_command(watched, log_root),
    )


def _silent(watched: WatchedRun, log_root: str, now: datetime) -> Alert:
    """Return the alert about a run whose process exists, and that writes nothing."""
    since = watched.last_row_at
    return _of_run(
        watched,
        AlertKind.SILENT,
        Severity.CRITICAL,
        since,
        f"its process exists on {watched.host or 'this machine'}, but has written no row for "
        f"{_ago(since, now)}: it is suspended, or stuck",
        f"kill -CONT {_pid(watched)} continues a suspended run; otherwise {_end_command(watched, log_root)}",
    )


def _lost(watched: WatchedRun, log_root: str, now: datetime) -> Alert:
    """Return the alert about a run that ended without a row that says so."""
    since, host = watched.last_row_at, watched.host or "its machine"
    here = host == socket.gethostname()
    where = "it was on this machine" if here else f"the ledger can't see whether {host} is still paid for"
    way_out = f"look at {host}, give it back if nothing runs there, and start the training again"
    if (watched.run.directory / STATE_FILE).is_file():
        way_out = _resume_command(watched, log_root)
    return _of_run(
        watched,
        AlertKind.LOST,
        Severity.WARNING,
        since,
        f"no row for {_ago(since, now)}, and none that says how it ended; {where}",
        way_out,
    )


def _health(watched: WatchedRun) -> Iterator[Alert]:
    """Yield the health events of the last attempt, unless a policy has passed a screening since."""
    attempt = watched.run.attempts[-1]
    passed_ns = max((row.wall_ns for owner, row in watched.facts.judged if owner is attempt and row.passes), default=-1)
    latest: dict[str, tuple[Health, datetime]] = {}
    for journal in attempt.journals:
        for row, time in journal.timed(Health):
            if row.wall_ns > passed_ns:
                latest[row.event] = (row, time)
    for row, time in latest.values():
        yield _of_run(
            watched,
            AlertKind.HEALTH,
            Severity.WARNING if row.event in _HOPELESS else Severity.NOTICE,
            time,
            f"{row.event} at iteration {row.iteration}: {row.evidence}",
            row.advice,
        )


def _overdue(watched: WatchedRun, log_root: str) -> Iterator[Alert]:
    """Yield the alert about a run that has taken longer than each earlier run needed to reach the target."""
    facts = watched.facts
    reached = [each.to_target_s for each in watched.earlier if each.to_target_s is not None]
    if len(reached) < FEWEST_RUNS or facts.proof is not None or not facts.declared.stop_at_target:
        return
    slowest_s, spent = max(reached), "" if watched.usd is None else f" and {usd(watched.usd)}"
    if facts.wall_s <= slowest_s:
        return
    over = timedelta(seconds=facts.wall_s - slowest_s)
    yield _of_run(
        watched,
        AlertKind.OVERDUE,
        Severity.WARNING,
        watched.last_row_at - over,
        f"{duration(facts.wall_s)}{spent} without its target; the slowest of {len(reached)} earlier runs with the "
        f"same settings needed {duration(slowest_s)}; by chance alone, 1 of {len(reached) + 1} runs takes longer",
        f"{_SCRIPTS}/report.py {shlex.quote(watched.run.run_id)} --checkpoints --log_root {shlex.quote(log_root)}",
    )


def _of_run(
    watched: WatchedRun, kind: AlertKind, severity: Severity, since: datetime, sentence: str, way_out: str
) -> Alert:
    """Return an alert about a run."""
    return Alert(
        kind=kind,
        severity=severity,
        subject_kind="run",
        subject=watched.run.run_id,
        since=since,
        usd_per_hour=watched.usd_per_hour,
        sentence=sentence,
        way_out=way_out,
    )


def _end_command(watched: WatchedRun, log_root: str) -> str:
    """Return the commands that end a run and resume it; a job in a queue resumes its run when it starts again."""
    if watched.job is not None:
        return watched.job.cancel
    on = "" if watched.host in (None, socket.gethostname()) else f" on {watched.host}"
    return f"kill {_pid(watched)}{on}, then {_resume_command(watched, log_root)}"


def _resume_command(watched: WatchedRun, log_root: str) -> str:
    """Return the command that resumes a run."""
    return f"{_SCRIPTS}/train.py --resume {shlex.quote(watched.run.run_id)} --log_root {shlex.quote(log_root)}"


def _pid(watched: WatchedRun) -> int:
    """Return the process to signal: the supervisor, which passes signals on, or the training itself."""
    attempt: Attempt = watched.run.attempts[-1]
    supervisors = attempt.of(SupervisionStarted)
    if supervisors:
        return supervisors[0].pid
    start = attempt.first_start
    assert start is not None  # an attempt without a supervisor begins with its first process
    return start.pid


def _ago(since: datetime, now: datetime) -> str:
    """Return how long ago something was."""
    return duration(max((now - since).total_seconds(), 0.0))


def silent_jobs(
    jobs: Iterable[QueuedTraining],
    last_row_at: datetime | None,
    usd_per_hour: float | None,
    now: datetime,
    limits: Limits,
) -> Iterator[Alert]:
    """Yield an alert for each job that has run for long without a row of the part that runs now.

    Args:
        jobs: Jobs of trainings that have no run yet, or whose run has no live attempt.
        last_row_at: When their run wrote its last row; ``None`` without a run.
        usd_per_hour: What they cost [USD/h]; ``None`` if unknown.
        now: The time.
        limits: Thresholds.
    """
    for job in jobs:
        if not job.runs or job.started_at is None:
            continue
        since = job.started_at if last_row_at is None else max(job.started_at, last_row_at)
        if (now - since).total_seconds() <= limits.hung_after_s:
            continue  # it may still wait for the attempt before to count as lost, or import its packages
        yield Alert(
            kind=AlertKind.SILENT,
            severity=Severity.CRITICAL,
            subject_kind="queue",
            subject=f"{job.job}_{job.index}",
            since=since,
            usd_per_hour=usd_per_hour,
            sentence=f"its job runs ({job.said}), and {job.name} has written no row for {_ago(since, now)}",
            way_out=f"read what it printed in {job.output}, or end it: {job.cancel}",
        )


def queue_alerts(
    queues: Iterable[QueuedTraining], ended_at: Mapping[str, datetime], now: datetime, limits: Limits
) -> Iterator[Alert]:
    """Yield an alert for each job of which no training has run for long, although some wait.

    Args:
        queues: Trainings that wait or run.
        ended_at: When a run of a job last wrote a row, by job.
        now: The time.
        limits: Thresholds.
    """
    by_job: dict[str, list[QueuedTraining]] = {}
    for each in queues:
        by_job.setdefault(each.job, []).append(each)
    for job, members in by_job.items():
        if any(each.runs for each in members):
            continue
        first = members[0]
        since = max(first.submitted_at, ended_at.get(job, first.submitted_at))
        if (now - since).total_seconds() <= limits.queue_after_s:
            continue
        said, waiting = ", ".join(sorted({each.said for each in members})), _trainings(len(members))
        yield Alert(
            kind=AlertKind.STUCK_QUEUE,
            severity=Severity.WARNING,
            subject_kind="queue",
            subject=job,
            since=since,
            usd_per_hour=0.0,
            sentence=f"{waiting} of {first.plan} wait, and none has run for {_ago(since, now)}: {said}",
            way_out=f"correct the reason, or {first.cancel}",
        )


def _trainings(count: int) -> str:
    """Return a number of trainings in words."""
    return f"{count} training{'' if count == 1 else 's'}"


def most_severe_first(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Return alerts by severity, then by what they cost, then by their age."""
    order: Sequence[Severity] = [*Severity]
    return tuple(
        sorted(
            alerts,
            key=lambda each: (
                order.index(each.severity),
                -(each.usd_per_hour or 0.0),
                each.since.timestamp() if each.since else 0.0,
                each.subject,
            ),
        )
    )
