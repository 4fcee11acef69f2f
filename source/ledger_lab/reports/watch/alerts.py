"""Alerts about runs, queues, machines and studies. Each rule looks at rows and times only, and remembers nothing.

What is known of an idle machine depends on the machine:

- A scheduler says that a job still runs, although its training has ended: certain.
- The watch runs on the machine itself, and no run of the ledger goes on there: other work on it stays unknown.
- Any other machine may have been given back. The ledger only knows when it wrote its last row. So this is a notice.
"""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import get_args

from ledger_lab.ledger import STATE_FILE, AttemptStarted, EvaluationStarted, Health, SupervisionStarted
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS
from ledger_lab.ledger.costs.prices import OWNED
from ledger_lab.ledger.rows import Event
from ledger_lab.names import as_started
from ledger_lab.reports.watch.model import (
    FORGET_AFTER_S,
    HUNG_AFTER_S,
    IDLE_AFTER_S,
    QUEUE_AFTER_S,
    Alert,
    AlertKind,
    Estimate,
    QueuedTraining,
    Severity,
    Spend,
    State,
)
from ledger_lab.reports.watch.progress import WatchedRun, trainer_row_at
from ledger_lab.reports.watch.words import estimated, hours
from ledger_lab.units import counted, duration, usd

_OWN_ENGINES = (None, "local")
"""Engines under which nobody else gives a machine back: none, and the one that runs trainings in the background."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What all alerts of a watch have in common."""

    log_root: str
    """Root of the ledger, for commands."""
    now: datetime

    def ago(self, since: datetime) -> str:
        """Return how long ago something was."""
        return duration(max(self.seconds(since), 0.0))

    def seconds(self, since: datetime) -> float:
        """Return how long ago something was [s]."""
        return (self.now - since).total_seconds()

    def command(self, script: str, *arguments: str) -> str:
        """Return a command on the ledger, as the user types it."""
        words = shlex.join([*arguments, "--log_root", self.log_root])
        return as_started(f"./isaaclab.sh -p scripts/{script}.py {words}")


def run_alerts(watched: WatchedRun, look: Look) -> Iterator[Alert]:
    """Yield the alerts about one run.

    Args:
        watched: The run.
        look: The watch.
    """
    state, job, run = watched.state, watched.job, watched.run
    last, host = watched.last_row_at, watched.host or "its machine"
    here = watched.host in (None, socket.gethostname())
    resume = look.command("train", "--resume", run.run_id)
    end = f"kill {_pid(watched)}{'' if here else f' on {host}'}, then {resume}" if job is None else job.cancel
    if state is State.HUNG:
        since = trainer_row_at(run)
        said = f"its supervisor writes rows, and the training has written none for {look.ago(since)}: it does no work"
        yield _of_run(watched, "hung", "critical", since, said, end)
    elif state is State.SILENT:
        said = f"its process exists on {host}, but has written no row for {look.ago(last)}: it is suspended, or stuck"
        way_out = f"kill -CONT {_pid(watched)} continues a suspended run; otherwise {end}"
        yield _of_run(watched, "silent", "critical", last, said, way_out)
    elif state is State.LOST and (job is None or (job.runs and job.started_at is None)):
        where = "it was on this machine" if here else f"the ledger can't see whether {host} is still paid for"
        said = f"no row for {look.ago(last)}, and none that says how it ended; {where}"
        again = f"look at {host}, give it back if nothing runs there, and start the training again"
        way_out = resume if (run.directory / STATE_FILE).is_file() else again
        yield _of_run(watched, "lost", "warning", last, said, way_out)
    elif state in (State.LOST, State.PREEMPTED) and job is not None:
        yield from silent_jobs([job], look, watched)
    if watched.is_live and run.attempts:
        yield from _health(watched)
        yield from _overdue(watched, look)


def _of_run(
    watched: WatchedRun, kind: AlertKind, severity: Severity, since: datetime, sentence: str, way_out: str
) -> Alert:
    """Return an alert about a run."""
    return Alert(kind, severity, "run", watched.run.run_id, since, watched.usd_per_hour, sentence, way_out)


def _pid(watched: WatchedRun) -> int | None:
    """Return the process to signal: the supervisor, which passes signals on, or the training itself."""
    attempt = watched.run.attempts[-1] if watched.run.attempts else None
    if attempt is None:
        return None
    start = next(iter(attempt.of(SupervisionStarted)), attempt.first_start)
    return None if start is None else start.pid


def _health(watched: WatchedRun) -> Iterator[Alert]:
    """Yield the health events of the last attempt, unless a policy has passed a check since."""
    attempt = watched.run.attempts[-1]
    passed_ns = max((row.wall_ns for owner, row in watched.facts.judged if owner is attempt and row.passes), default=-1)
    events = (timed for journal in attempt.journals for timed in journal.timed(Health) if timed[0].wall_ns > passed_ns)
    for row, time in {row.event: (row, time) for row, time in events}.values():
        # Others may pass by themselves, so they are notices.
        severity: Severity = "warning" if row.event == Event.NO_CONVERGENCE else "notice"
        sentence = f"{row.event} at iteration {row.iteration}: {row.evidence}"
        yield _of_run(watched, "health", severity, time, sentence, row.advice)


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
    way_out = look.command("report", watched.run.run_id)
    yield _of_run(watched, "overdue", "warning", since, sentence, way_out)


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
        if look.seconds(since) <= HUNG_AFTER_S:
            continue  # it may still wait for the attempt before to count as lost, or import its packages
        rate = None if watched is None else watched.usd_per_hour
        sentence = f"its job runs ({job.said}), and {job.name} has written no row for {look.ago(since)}"
        way_out = f"read what it printed in {job.output}, or end it: {job.cancel}"
        yield Alert("silent", "critical", "queue", job.id, since, rate, sentence, way_out)


def queue_alerts(queues: Iterable[QueuedTraining], runs: Iterable[WatchedRun], look: Look) -> Iterator[Alert]:
    """Yield an alert for each job of which no training has run for long, although some wait.

    Args:
        queues: Trainings that wait or run.
        runs: Runs that changed lately.
        look: The watch.
    """
    ended_at: dict[str, datetime] = {}
    for run in runs:
        start = run.run.attempts[-1].first_start if run.run.attempts else None
        if start is not None and start.job is not None:
            ended_at[start.job.job] = max(run.last_row_at, ended_at.get(start.job.job, run.last_row_at))
    by_job: dict[str, list[QueuedTraining]] = {}
    for each in queues:
        by_job.setdefault(each.job, []).append(each)
    for job, members in by_job.items():
        first = members[0]
        since = max(first.submitted_at, ended_at.get(job, first.submitted_at))
        if any(each.runs for each in members) or look.seconds(since) <= QUEUE_AFTER_S:
            continue
        said = ", ".join(sorted({each.said for each in members}))
        waiting = f"{counted(len(members), 'training')} of {first.plan} wait"
        sentence = f"{waiting}, and none has run for {look.ago(since)}: {said}"
        way_out = f"correct the reason, or {first.cancel}"
        yield Alert("stuck_queue", "warning", "queue", job, since, 0.0, sentence, way_out)


def idle_alerts(runs: Iterable[WatchedRun], look: Look) -> Iterator[Alert]:
    """Yield an alert for each job and each machine that costs money after its last run.

    Args:
        runs: Runs that changed lately.
        look: The watch.
    """
    last_uses: dict[str, tuple[datetime, WatchedRun]] = {}
    busy = set()
    for each in runs:
        yield from _idle_job(each, look)
        for host, last, goes_on in _uses(each):
            busy |= {host} if goes_on else set()
            if host not in last_uses or last > last_uses[host][0]:
                last_uses[host] = last, each
    for host, (last, watched) in last_uses.items():
        if host not in busy:
            yield from _idle_machine(host, last, watched, look)


def _idle_job(watched: WatchedRun, look: Look) -> Iterator[Alert]:
    """Yield the alert about a job that still runs after its training has ended."""
    job = watched.job
    if job is None or not job.runs or watched.state is not State.ENDED:
        return
    since = watched.last_row_at if job.started_at is None else max(watched.last_row_at, job.started_at)
    if look.seconds(since) > IDLE_AFTER_S:
        rate = watched.usd_per_hour
        sentence = f"its job still runs ({job.said}), and run {watched.run.run_id} in it ended {look.ago(since)} ago"
        yield Alert("idle", "critical", "queue", job.id, since, rate, sentence, job.cancel)


def _uses(watched: WatchedRun) -> Iterator[tuple[str, datetime, bool]]:
    """Yield the machines of attempts and evaluations, with the time of the last row, and whether the use goes on.

    Uses after which a scheduler gives the machine back are left out.
    """
    run = watched.run
    for attempt in run.attempts:
        goes_on = attempt is run.attempts[-1] and watched.is_live
        for start in attempt.of(AttemptStarted):  # of all processes, which may be on several machines
            if goes_on or (None if start.job is None else start.job.engine) in _OWN_ENGINES:
                yield start.host, max(journal.last_time for journal in attempt.journals), goes_on
    for evaluation in run.evaluations:  # it writes every second, so its last row tells whether it goes on
        for row in evaluation.of(EvaluationStarted):
            yield row.host, max(journal.last_time for journal in evaluation.journals), False


def _idle_machine(host: str, last: datetime, watched: WatchedRun, look: Look) -> Iterator[Alert]:
    """Yield the alert about a machine on which nothing of the ledger goes on, after its last use."""
    price, here = watched.facts.price, host == socket.gethostname()
    if price.usd_per_hour in (None, 0.0) or price.market == OWNED or watched.state is State.LOST:
        return  # its idle hours cost nothing, or there is an alert about the run
    if IDLE_AFTER_S < look.seconds(last) <= FORGET_AFTER_S:
        unknown = "other work on it is unknown" if here else "the ledger can't see whether it was given back"
        sentence = (
            f"{host} ({price.instance}) ended its last work, for run {watched.run.run_id}, {look.ago(last)} ago, and "
            f"has started nothing since; {unknown}"
        )
        severity: Severity = "warning" if here else "notice"
        way_out = "give the machine back, or start the next training"
        yield Alert("idle", severity, "machine", host, last, watched.usd_per_hour, sentence, way_out)


def budget_alerts(study: Spend) -> Iterator[Alert]:
    """Yield the alerts about a study: at most one for its budget of money, and one for that of time.

    Args:
        study: The study.
    """
    if not (study.live_runs or study.missing):
        return
    for key, budget, spent, forecast, show in (
        ("budget_usd", study.budget_usd, study.spent_usd, study.forecast_usd, usd),
        ("budget_h", study.budget_h, study.spent_h, study.forecast_h, hours),
    ):
        found = None if budget is None else _risk(budget, spent, forecast)
        if found is not None:
            sentence = (
                f"{show(spent)} of a budget of {show(budget)} are spent, forecast {estimated(forecast, show)}; "
                f"{study.live_runs} live, {study.missing} still to start"
            )
            way_out = (
                f"end it (study.py {shlex.quote(study.name)} --on CLUSTER --cancel, or Ctrl-C), plan fewer seeds, or "
                f"raise {key} in its file"
            )
            yield Alert(*found, "study", study.name, None, study.usd_per_hour, sentence, way_out)


def _risk(budget: float, spent: float | None, forecast: Estimate | None) -> tuple[AlertKind, Severity] | None:
    """Tell whether a budget is spent, can't suffice, or may not suffice; ``None`` if it will probably suffice."""
    expected, low, high = (None,) * 3 if forecast is None else (forecast.expected, forecast.low, forecast.high)
    if any(least is not None and least > budget for least in (spent, low)):
        return "over_budget", "critical"
    most = high if high is not None else expected
    if most is None or most <= budget:
        return None
    return "budget_at_risk", "notice" if expected is None else "warning"  # only bounds are known


def most_severe_first(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Return alerts by severity, then by what they cost, then by their age."""
    order = get_args(Severity)

    def key(alert: Alert) -> tuple[int, float, float, str]:
        since_s = alert.since.timestamp() if alert.since else 0.0
        return order.index(alert.severity), -(alert.usd_per_hour or 0.0), since_s, alert.subject

    return tuple(sorted(alerts, key=key))
