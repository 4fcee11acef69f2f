"""Alerts about runs, queues, machines and studies. Each rule looks at rows and times only, and remembers nothing.

What is known of an idle machine depends on the machine:

- A scheduler says that a job still runs, although its training has ended: certain.
- The watch runs on the machine itself, and no run of the ledger goes on there: other work on it stays unknown.
- Any other machine may have been given back. The ledger only knows when it wrote its last row. So this is a notice.
"""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from ledger_lab.ledger import STATE_FILE, AttemptStarted, EvaluationStarted, Health, SupervisionStarted
from ledger_lab.ledger.costs import FEWEST_RUNS, LOCAL, OWNED
from ledger_lab.ledger.health import Event
from ledger_lab.reports.watch.model import Alert, AlertKind, Estimate, Limits, QueuedTraining, Severity, Spend, State
from ledger_lab.reports.watch.progress import WatchedRun, trainer_row_at
from ledger_lab.units import duration, usd

_HOPELESS: Final = (Event.NO_CONVERGENCE,)
"""Health events that say that a run will miss its target. Others may pass, so they are notices."""

_OWN_ENGINES: Final = (None, "local")
"""Engines under which nobody else gives a machine back: none, and the one that runs trainings in the background."""

_SCRIPTS: Final = "./isaaclab.sh -p scripts"


@dataclass(frozen=True, kw_only=True)
class Look:
    """What all alerts of a watch have in common."""

    log_root: str
    """Root of the ledger, for commands."""
    now: datetime
    limits: Limits

    def ago(self, since: datetime) -> str:
        """Return how long ago something was."""
        return duration(max(self.seconds(since), 0.0))

    def seconds(self, since: datetime) -> float:
        """Return how long ago something was [s]."""
        return (self.now - since).total_seconds()


def run_alerts(watched: WatchedRun, look: Look) -> Iterator[Alert]:
    """Yield the alerts about one run.

    Args:
        watched: The run.
        look: The watch.
    """
    state, job = watched.state, watched.job
    if state is State.HUNG:
        yield _hung(watched, look)
    elif state is State.SILENT:
        yield _silent(watched, look)
    elif state is State.LOST and (job is None or (job.runs and job.started_at is None)):
        yield _lost(watched, look)
    elif state in (State.LOST, State.PREEMPTED) and job is not None:
        yield from silent_jobs([job], look, watched)
    if watched.is_live and watched.run.attempts:
        yield from _health(watched)
        yield from _overdue(watched, look)


def _of_run(
    watched: WatchedRun, kind: AlertKind, severity: Severity, since: datetime, sentence: str, way_out: str
) -> Alert:
    """Return an alert about a run."""
    return Alert(kind, severity, "run", watched.run.run_id, since, watched.usd_per_hour, sentence, way_out)


def _hung(watched: WatchedRun, look: Look) -> Alert:
    """Return the alert about a training that no longer writes, while its supervisor does."""
    since = trainer_row_at(watched.run)
    sentence = f"its supervisor writes rows, and the training has written none for {look.ago(since)}: it does no work"
    return _of_run(watched, AlertKind.HUNG, Severity.CRITICAL, since, sentence, _end_command(watched, look))


def _silent(watched: WatchedRun, look: Look) -> Alert:
    """Return the alert about a run whose process exists, and that writes nothing."""
    since = watched.last_row_at
    sentence = (
        f"its process exists on {watched.host or 'this machine'}, but has written no row for {look.ago(since)}: it is "
        "suspended, or stuck"
    )
    way_out = f"kill -CONT {_pid(watched)} continues a suspended run; otherwise {_end_command(watched, look)}"
    return _of_run(watched, AlertKind.SILENT, Severity.CRITICAL, since, sentence, way_out)


def _lost(watched: WatchedRun, look: Look) -> Alert:
    """Return the alert about a run that ended without a row that says so."""
    since, host = watched.last_row_at, watched.host or "its machine"
    here = host == socket.gethostname()
    where = "it was on this machine" if here else f"the ledger can't see whether {host} is still paid for"
    sentence = f"no row for {look.ago(since)}, and none that says how it ended; {where}"
    way_out = f"look at {host}, give it back if nothing runs there, and start the training again"
    if (watched.run.directory / STATE_FILE).is_file():
        way_out = _resume_command(watched, look)
    return _of_run(watched, AlertKind.LOST, Severity.WARNING, since, sentence, way_out)


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
        severity = Severity.WARNING if row.event in _HOPELESS else Severity.NOTICE
        sentence = f"{row.event} at iteration {row.iteration}: {row.evidence}"
        yield _of_run(watched, AlertKind.HEALTH, severity, time, sentence, row.advice)


def _overdue(watched: WatchedRun, look: Look) -> Iterator[Alert]:
    """Yield the alert about a run that has taken longer than each earlier run needed to reach the target."""
    facts = watched.facts
    reached = [each.to_target_s for each in watched.earlier if each.to_target_s is not None]
    if len(reached) < FEWEST_RUNS or facts.proof is not None or not facts.declared.stop_at_target:
        return
    slowest_s, spent = max(reached), "" if watched.usd is None else f" and {usd(watched.usd)}"
    if facts.wall_s <= slowest_s:
        return
    since = watched.last_row_at - timedelta(seconds=facts.wall_s - slowest_s)
    sentence = (
        f"{duration(facts.wall_s)}{spent} without its target; the slowest of {len(reached)} earlier runs with the "
        f"same settings needed {duration(slowest_s)}; by chance alone, 1 of {len(reached) + 1} runs takes longer"
    )
    way_out = f"{_SCRIPTS}/report.py {shlex.quote(watched.run.run_id)} --checkpoints {_log_root(look)}"
    yield _of_run(watched, AlertKind.OVERDUE, Severity.WARNING, since, sentence, way_out)


def _end_command(watched: WatchedRun, look: Look) -> str:
    """Return the commands that end a run and resume it; a job in a queue resumes its run when it starts again."""
    if watched.job is not None:
        return watched.job.cancel
    on = "" if watched.host in (None, socket.gethostname()) else f" on {watched.host}"
    return f"kill {_pid(watched)}{on}, then {_resume_command(watched, look)}"


def _resume_command(watched: WatchedRun, look: Look) -> str:
    """Return the command that resumes a run."""
    return f"{_SCRIPTS}/train.py --resume {shlex.quote(watched.run.run_id)} {_log_root(look)}"


def _log_root(look: Look) -> str:
    """Return the flag of the ledger."""
    return f"--log_root {shlex.quote(look.log_root)}"


def _pid(watched: WatchedRun) -> int:
    """Return the process to signal: the supervisor, which passes signals on, or the training itself."""
    attempt = watched.run.attempts[-1]
    supervisors = attempt.of(SupervisionStarted)
    if supervisors:
        return supervisors[0].pid
    start = attempt.first_start
    assert start is not None  # an attempt without a supervisor begins with its first process
    return start.pid


def silent_jobs(jobs: Iterable[QueuedTraining], look: Look, watched: WatchedRun | None = None) -> Iterator[Alert]:
    """Yield an alert for each job that has run for long without a row of the part that runs now.

    Args:
        jobs: Jobs of trainings.
        look: The watch.
        watched: Their run, which has no live attempt; ``None`` if they have none yet.
    """
    for job in jobs:
        if not job.runs or job.started_at is None:
            continue
        since = job.started_at if watched is None else max(job.started_at, watched.last_row_at)
        if look.seconds(since) <= look.limits.hung_after_s:
            continue  # it may still wait for the attempt before to count as lost, or import its packages
        rate = None if watched is None else watched.usd_per_hour
        sentence = f"its job runs ({job.said}), and {job.name} has written no row for {look.ago(since)}"
        way_out = f"read what it printed in {job.output}, or end it: {job.cancel}"
        yield Alert(AlertKind.SILENT, Severity.CRITICAL, "queue", job.id, since, rate, sentence, way_out)


def queue_alerts(queues: Iterable[QueuedTraining], ended_at: Mapping[str, datetime], look: Look) -> Iterator[Alert]:
    """Yield an alert for each job of which no training has run for long, although some wait.

    Args:
        queues: Trainings that wait or run.
        ended_at: When a run of a job last wrote a row, by job.
        look: The watch.
    """
    by_job: dict[str, list[QueuedTraining]] = {}
    for each in queues:
        by_job.setdefault(each.job, []).append(each)
    for job, members in by_job.items():
        first = members[0]
        since = max(first.submitted_at, ended_at.get(job, first.submitted_at))
        if any(each.runs for each in members) or look.seconds(since) <= look.limits.queue_after_s:
            continue
        said = ", ".join(sorted({each.said for each in members}))
        waiting = f"{len(members)} training{'' if len(members) == 1 else 's'}"
        sentence = f"{waiting} of {first.plan} wait, and none has run for {look.ago(since)}: {said}"
        way_out = f"correct the reason, or {first.cancel}"
        yield Alert(AlertKind.STUCK_QUEUE, Severity.WARNING, "queue", job, since, 0.0, sentence, way_out)


@dataclass(frozen=True)
class _Use:
    """A use of a machine: an attempt of a run, or a stand-alone evaluation."""

    watched: WatchedRun
    host: str
    last_row_at: datetime
    goes_on: bool


def idle_alerts(runs: Iterable[WatchedRun], look: Look) -> Iterator[Alert]:
    """Yield an alert for each job and each machine that costs money after its last run.

    Args:
        runs: Runs that changed lately.
        look: The watch.
    """
    by_host: dict[str, list[_Use]] = {}
    for each in runs:
        yield from _idle_job(each, look)
        for use in _uses(each):
            by_host.setdefault(use.host, []).append(use)
    for uses in by_host.values():
        if not any(use.goes_on for use in uses):
            yield from _idle_machine(max(uses, key=lambda use: use.last_row_at), look)


def _idle_job(watched: WatchedRun, look: Look) -> Iterator[Alert]:
    """Yield the alert about a job that still runs after its training has ended."""
    job = watched.job
    if job is None or not job.runs or watched.state is not State.ENDED:
        return
    since = watched.last_row_at if job.started_at is None else max(watched.last_row_at, job.started_at)
    if look.seconds(since) > look.limits.idle_after_s:
        rate = watched.usd_per_hour
        sentence = f"its job still runs ({job.said}), and run {watched.run.run_id} in it ended {look.ago(since)} ago"
        yield Alert(AlertKind.IDLE, Severity.CRITICAL, "queue", job.id, since, rate, sentence, job.cancel)


def _uses(watched: WatchedRun) -> Iterator[_Use]:
    """Yield the uses of machines: those that go on, and those after which only their user gives the machine back."""
    run = watched.run
    for attempt in run.attempts:
        goes_on = attempt is run.attempts[-1] and watched.is_live
        for start in attempt.of(AttemptStarted):  # of all processes, which may be on several machines
            if goes_on or (None if start.job is None else start.job.engine) in _OWN_ENGINES:
                last = max(journal.last_time for journal in attempt.journals)
                yield _Use(watched, start.host, last, goes_on)
    for evaluation in run.evaluations:
        for row in evaluation.of(EvaluationStarted):
            last = max(journal.last_time for journal in evaluation.journals)
            yield _Use(watched, row.host, last, goes_on=False)  # it writes every second


def _idle_machine(last: _Use, look: Look) -> Iterator[Alert]:
    """Yield the alert about a machine on which nothing of the ledger goes on, after its last use."""
    host, price = last.host, last.watched.facts.price
    if price.usd_per_hour in (None, 0.0) or price.market == OWNED or last.watched.state is State.LOST:
        return  # its idle hours cost nothing, or there is an alert about the run
    if not look.limits.idle_after_s < look.seconds(last.last_row_at) <= look.limits.forget_after_s:
        return
    here = host == socket.gethostname()
    unknown = "other work on it is unknown" if here else "the ledger can't see whether it was given back"
    if price.instance == LOCAL:
        unknown += ", and whether its idle hours cost money"
    severity = Severity.WARNING if here and price.instance != LOCAL else Severity.NOTICE
    sentence = (
        f"{host} ({price.instance}) ended its last work, for run {last.watched.run.run_id}, "
        f"{look.ago(last.last_row_at)} ago, and has started nothing since; {unknown}"
    )
    way_out, rate = "give the machine back, or start the next training", last.watched.usd_per_hour
    yield Alert(AlertKind.IDLE, severity, "machine", host, last.last_row_at, rate, sentence, way_out)


def budget_alerts(study: Spend) -> Iterator[Alert]:
    """Yield the alerts about a study: at most one for its budget of money, and one for that of time.

    Args:
        study: The study.
    """
    if not (study.live_runs or study.missing):
        return
    found = {
        "budget_usd": _judge(study.budget_usd, study.spent_usd, study.forecast_usd, usd),
        "budget_h": _judge(study.budget_h, study.spent_h, study.forecast_h, lambda amount: f"{amount:.1f} h"),
    }
    for key, judged in found.items():
        if judged is not None:
            kind, severity, words = judged
            sentence = f"{words}; {study.live_runs} live, {study.missing} still to start"
            way_out = (
                f"end it (study.py {shlex.quote(study.name)} --on CLUSTER --cancel, or Ctrl-C), plan fewer seeds, or "
                f"raise {key} in its file"
            )
            yield Alert(kind, severity, "study", study.name, None, study.usd_per_hour, sentence, way_out)


def _judge(
    budget: float | None, spent: float | None, forecast: Estimate | None, show: Callable[[float], str]
) -> tuple[AlertKind, Severity, str] | None:
    """Compare a budget with the spend and its forecast."""
    if budget is None:
        return None
    of = f"of a budget of {show(budget)}"
    if spent is not None and spent > budget:
        return AlertKind.OVER_BUDGET, Severity.CRITICAL, f"{show(spent)} are spent {of}"
    if forecast is None:
        return None
    expected, low, high = forecast.expected, forecast.low, forecast.high
    if expected is None:
        if low is not None and low > budget:
            return AlertKind.OVER_BUDGET, Severity.CRITICAL, f"it will take at least {show(low)} {of}"
        if high is None or high <= budget:
            return None
        words = f"it may take up to {show(high)} {of}; the ledger has too few runs to tell more"
        return AlertKind.BUDGET_AT_RISK, Severity.NOTICE, words
    words = f"it will probably take {show(expected)}"
    if low is None or high is None:
        words = f"{words} {of}; there are too few runs for an interval"
        return (AlertKind.BUDGET_AT_RISK, Severity.WARNING, words) if expected > budget else None
    words = f"{words} [{show(low)}, {show(high)}] {of}"
    if low > budget:
        return AlertKind.OVER_BUDGET, Severity.CRITICAL, f"{words}: the remaining trainings can't finish in it"
    return (AlertKind.BUDGET_AT_RISK, Severity.WARNING, f"{words}: it may not be enough") if high > budget else None


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
