"""Progress of a run on its way to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ledger_lab.costs import RunTime
from ledger_lab.ledger import PanelResult, Run
from ledger_lab.reports.checkpoints import share_of
from ledger_lab.reports.clock import seconds_to_target
from ledger_lab.reports.facts import RunFacts
from ledger_lab.reports.health_events import summarize_health
from ledger_lab.watch.limits import Limits
from ledger_lab.watch.model import Estimate, RunProgress, State
from ledger_lab.watch.money import usd_estimate, usd_per_hour
from ledger_lab.watch.queues import QueuedTraining
from ledger_lab.watch.signs import last_row_at, state_of
from ledger_lab.watch.time_left import seconds_to_last_iteration, time_left, time_to_last_iteration


@dataclass(frozen=True, kw_only=True)
class WatchedRun:
    """A run with its sums and its progress."""

    run: Run
    facts: RunFacts
    progress: RunProgress
    earlier: tuple[RunTime, ...]
    """Times of the other runs with the same settings."""
    job: QueuedTraining | None
    """Its job, if it waits or runs."""


def run_time(facts: RunFacts) -> RunTime:
    """Return the time of a run to its target, and its whole time.

    Args:
        facts: The run.
    """
    return RunTime(wall_s=facts.wall_s, to_target_s=seconds_to_target(facts.run, facts.judged))


def run_state(facts: RunFacts, now: datetime, limits: Limits) -> State:
    """Return where a run stands, according to the ledger.

    Args:
        facts: The run.
        now: The time.
        limits: Thresholds.
    """
    iteration_s = facts.loop_s / facts.updates if facts.updates and facts.loop_s is not None else None
    return state_of(facts.run, iteration_s, now, limits)


def watch_run(
    facts: RunFacts,
    state: State,
    earlier: Sequence[RunTime],
    *,
    job: QueuedTraining | None = None,
    study: str | None = None,
) -> WatchedRun:
    """Return a run with its progress.

    Args:
        facts: The run.
        state: Where it stands.
        earlier: Times of the other runs with the same settings.
        job: Its job, if it waits or runs according to its engine.
        study: Its study, if this is known.
    """
    run, declared = facts.run, facts.declared
    judged = [row for _, row in facts.judged if row.invalid is None]
    best = facts.success if facts.proof is not None else _best(judged, declared.panel_id)
    left_s = None if state is State.ENDED else _left(facts, earlier)
    start = None if facts.last is None else facts.last.first_start
    progress = RunProgress(
        run_id=run.run_id,
        name=run.run_id,
        state=state,
        said=None if job is None else job.said,
        since=_since(run, state),
        last_row_at=last_row_at(run),
        host=None if start is None else start.host,
        study=study,
        cohort=run.cohort,
        task=declared.task,
        rl_library=declared.rl_library,
        seed=declared.seed,
        attempts=len(run.attempts),
        target_success=declared.target_success,
        target_reached=facts.proof is not None,
        screenings=sum(row.purpose == "screening" for row in judged),
        confirmations=len({row.confirmation for row in judged if row.purpose == "confirmation"}),
        best_score=None if best is None else best[0],
        best_interval=None if best is None else best[1],
        iterations=facts.updates,
        max_iterations=declared.max_iterations,
        wall_s=facts.wall_s,
        usd=facts.cost_usd(facts.price),
        usd_per_hour=usd_per_hour(facts),
        left_s=left_s,
        left_usd=usd_estimate(facts, left_s),
        health=tuple(summarize_health(run)),
    )
    return WatchedRun(run=run, facts=facts, progress=progress, earlier=tuple(earlier), job=job)


def waiting_training(job: QueuedTraining, study: str | None) -> RunProgress:
    """Return the progress of a training that has no run yet.

    Args:
        job: Its job.
        study: Its study, if this is known.
    """
    return RunProgress(
        run_id=None,
        name=job.name,
        state=State.QUEUED,
        said=job.said,
        since=job.submitted_at,
        last_row_at=None,
        host=None,
        study=study,
        cohort=None,
        task=None,
        rl_library=None,
        seed=None,
        attempts=0,
        target_success=None,
        target_reached=False,
        screenings=0,
        confirmations=0,
        best_score=None,
        best_interval=None,
        iterations=0,
        max_iterations=None,
        wall_s=0.0,
        usd=None,
        usd_per_hour=None,
        left_s=None,
        left_usd=None,
    )


def _since(run: Run, state: State) -> datetime:
    """Return when the state of a run began."""
    if state is State.RUNNING and run.attempts:
        return min(journal.first_time for journal in run.attempts[-1].journals)
    return last_row_at(run)


def _left(facts: RunFacts, earlier: Sequence[RunTime]) -> Estimate | None:
    """Estimate the time that a run has left [s]."""
    declared = facts.declared
    bound_s = seconds_to_last_iteration(facts.updates, declared.max_iterations, facts.loop_s)
    if not declared.stop_at_target:
        return time_to_last_iteration(bound_s, "because it does not stop at its target")
    return time_left(earlier, facts.wall_s, bound_s)


def _best(judged: Sequence[PanelResult], panel_id: str) -> tuple[float, tuple[float, float]] | None:
    """Return the best score of a confirmation, or without one, of a screening; with its 95 % interval."""
    confirmations = [row for row in judged if row.purpose == "confirmation"]
    screenings = [row for row in judged if row.purpose == "screening" and row.panel_id == panel_id]
    scores = [share_of(row.outcomes) for row in confirmations or screenings]
    return max(scores, default=None)


def is_superseded(run: Run, others: Sequence[Run]) -> bool:
    """Tell whether a later run has taken the place of a run that was preempted or lost: same cohort and seed.

    Args:
        run: The run.
        others: All runs of the ledger, oldest first.
    """
    if run.cohort is None:
        return False
    later = [other for other in others if other.cohort == run.cohort and other.declared_at > run.declared_at]
    return any(other.declared.seed == run.declared.seed for other in later)
