"""Alerts about machines that stand idle after their last run.

What is known depends on the machine:

- A scheduler says that a job still runs, although its training has ended: certain.
- The watch runs on the machine itself, and no run of the ledger goes on there: other work on it stays unknown.
- Any other machine may have been given back. The ledger only knows when it wrote its last row. So this is a notice.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from ledger_lab.ledger import AttemptStarted, EvaluationStarted
from ledger_lab.ledger.costs import LOCAL, OWNED
from ledger_lab.reports.watch.limits import Limits
from ledger_lab.reports.watch.model import Alert, AlertKind, Severity, State
from ledger_lab.reports.watch.progress import WatchedRun
from ledger_lab.units import duration

_OWN_ENGINES = (None, "local")
"""Engines under which nobody else gives a machine back: none, and the one that runs trainings in the background."""


@dataclass(frozen=True)
class _Use:
    """A use of a machine: an attempt of a run, or a stand-alone evaluation."""

    watched: WatchedRun
    host: str
    last_row_at: datetime
    goes_on: bool


def idle_alerts(runs: Iterable[WatchedRun], now: datetime, limits: Limits) -> Iterator[Alert]:
    """Yield an alert for each job and each machine that costs money after its last run.

    Args:
        runs: Runs that changed lately.
        now: The time.
        limits: Thresholds.
    """
    by_host: dict[str, list[_Use]] = {}
    for each in runs:
        if (alert := _idle_job(each, now, limits)) is not None:
            yield alert
        for use in _uses(each):
            by_host.setdefault(use.host, []).append(use)
    for host, uses in by_host.items():
        if not any(use.goes_on for use in uses):
            last = max(uses, key=lambda use: use.last_row_at)
            if (alert := _idle_machine(host, last, now, limits)) is not None:
                yield alert


def _idle_job(watched: WatchedRun, now: datetime, limits: Limits) -> Alert | None:
    """Return the alert about a job that still runs after its training has ended."""
    job = watched.job
    if job is None or not job.runs or watched.state is not State.ENDED:
        return None
    since = watched.last_row_at if job.started_at is None else max(watched.last_row_at, job.started_at)
    idle_s = (now - since).total_seconds()
    if idle_s <= limits.idle_after_s:
        return None
    return Alert(
        kind=AlertKind.IDLE,
        severity=Severity.CRITICAL,
        subject_kind="queue",
        subject=f"{job.job}_{job.index}",
        since=since,
        usd_per_hour=watched.usd_per_hour,
        sentence=f"its job still runs ({job.said}), and run {watched.run.run_id} in it ended {duration(idle_s)} ago",
        way_out=job.cancel,
    )


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


def _idle_machine(host: str, last: _Use, now: datetime, limits: Limits) -> Alert | None:
    """Return the alert about a machine on which nothing of the ledger goes on.

    Args:
        host: The machine.
        last: Its last use.
        now: The time.
        limits: Thresholds.
    """
    price, run = last.watched.price, last.watched.run
    if price.usd_per_hour in (None, 0.0) or price.market == OWNED or last.watched.state is State.LOST:
        return None  # its idle hours cost nothing, or there is an alert about the run
    idle_s = (now - last.last_row_at).total_seconds()
    if not limits.idle_after_s < idle_s <= limits.forget_after_s:
        return None
    here = host == socket.gethostname()
    unknown = "other work on it is unknown" if here else "the ledger can't see whether it was given back"
    if price.instance == LOCAL:
        unknown += ", and whether its idle hours cost money"
    return Alert(
        kind=AlertKind.IDLE,
        severity=Severity.WARNING if here and price.instance != LOCAL else Severity.NOTICE,
        subject_kind="machine",
        subject=host,
        since=last.last_row_at,
        usd_per_hour=last.watched.usd_per_hour,
        sentence=f"{host} ({price.instance}) ended its last work, for run {run.run_id}, {duration(idle_s)} ago, and "
        f"has started nothing since; {unknown}",
        way_out="give the machine back, or start the next training",
    )
