"""Progress of a run on its way to a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from ledger_lab.ledger import PanelResult, Run
from ledger_lab.ledger.costs import Price, RunTime
from ledger_lab.reports.checkpoints import share_of
from ledger_lab.reports.clock import seconds_to_target
from ledger_lab.reports.facts import RunFacts
from ledger_lab.reports.health_events import summarize_health
from ledger_lab.reports.watch.model import Estimate, RunProgress, State
from ledger_lab.reports.watch.money import usd_estimate, usd_per_hour
from ledger_lab.reports.watch.queues import QueuedTraining
from ledger_lab.reports.watch.signs import last_row_at
from ledger_lab.reports.watch.time_left import seconds_to_end, seconds_to_last_iteration, time_left, time_to_end


@dataclass(frozen=True, kw_only=True)
class WatchedRun:
    """A run, and where it stands. Its sums and its progress are only computed where they are needed."""

    run: Run
    state: State
    earlier: tuple[RunTime, ...] = ()
    """Times of the other runs with the same settings; empty for a run that has ended."""
    job: QueuedTraining | None = None
    """Its job, if it waits or runs."""
    study: str | None = None
    """The study that it belongs to, if this is known."""
    asked_price: Price | None = None
    """Price that replaces the declared price."""

    @property
    def is_live(self) -> bool:
        """Whether it goes on, and costs money."""
        return self.state in (State.RUNNING, State.HUNG, State.SILENT)

    @cached_property
    def price(self) -> Price:
        """Its price."""
        return self.asked_price or Price.from_dict(self.run.declared.price)

    @cached_property
    def last_row_at(self) -> datetime:
        """When any of its processes wrote its last row."""
        return last_row_at(self.run)

    @cached_property
    def host(self) -> str | None:
        """Machine of the first process of its last attempt; ``None`` if unknown."""
        start = self.run.attempts[-1].first_start if self.run.attempts else None
        return None if start is None else start.host

    @cached_property
    def facts(self) -> RunFacts:
        """Its sums."""
        return RunFacts(self.run, self.asked_price)

    @cached_property
    def usd(self) -> float | None:
        """What it has cost so far [USD]; ``None`` without a price."""
        return self.facts.cost_usd(self.price)

    @cached_property
    def usd_per_hour(self) -> float | None:
        """What it costs while it goes on [USD/h]; ``None`` without a price."""
        return usd_per_hour(self.facts)

    @cached_property
    def left_s(self) -> Estimate | None:
        """Time that it has left [s]."""
        if self.state is State.ENDED:
            return None
        bound_s, end = seconds_to_end(self.run)
        if not self.run.declared.stop_at_target:
            why = "because it does not stop at its target"
            return time_to_end(bound_s, end, why, is_known=seconds_to_last_iteration(self.run) is not None)
        return time_left(self.earlier, self.facts.wall_s, bound_s, end)

    @cached_property
    def left_usd(self) -> Estimate | None:
        """Cost of the time that it has left [USD]."""
        return usd_estimate(self.facts, self.left_s)

    @cached_property
    def progress(self) -> RunProgress:
        """Its progress."""
        return _progress(self)


def run_time(run: Run) -> RunTime:
    """Return the time of a run to its target, and its whole time.

    Args:
        run: The run.
    """
    wall_s = sum(attempt.wall_ns for attempt in run.attempts) / 1e9
    return RunTime(wall_s=wall_s, to_target_s=seconds_to_target(run, run.judged))


def _progress(watched: WatchedRun) -> RunProgress:
    """Return the progress of a run."""
    run, facts, declared = watched.run, watched.facts, watched.run.declared
    proof = facts.proof
    judged = [row for _, row in facts.judged if row.invalid is None]
    return RunProgress(
        run_id=run.run_id,
        name=run.run_id,
        state=watched.state,
        said=None if watched.job is None else watched.job.said,
        since=_since(watched),
        last_row_at=watched.last_row_at,
        host=watched.host,
        study=watched.study,
        cohort=run.cohort,
        task=declared.task,
        rl_library=declared.rl_library,
        seed=declared.seed,
        attempts=len(run.attempts),
        target_success=declared.target_success,
        target_reached=proof is not None,
        screenings=sum(row.purpose == "screening" for row in judged),
        confirmations=len({row.confirmation for row in judged if row.purpose == "confirmation"}),
        best_score=_best(judged, declared.panel_id) if proof is None else proof.share(declared.target_success).share,
        iterations=facts.updates,
        max_iterations=declared.max_iterations,
        wall_s=facts.wall_s,
        usd=watched.usd,
        usd_per_hour=watched.usd_per_hour,
        left_s=watched.left_s,
        left_usd=watched.left_usd,
        health=tuple(summarize_health(run)),
    )


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
        iterations=0,
        max_iterations=None,
        wall_s=0.0,
        usd=None,
        usd_per_hour=None,
        left_s=None,
        left_usd=None,
    )


def _since(watched: WatchedRun) -> datetime:
    """Return when the state of a run began."""
    if watched.state is State.RUNNING and watched.run.attempts:
        return min(journal.first_time for journal in watched.run.attempts[-1].journals)
    return watched.last_row_at


def _best(judged: Sequence[PanelResult], panel_id: str) -> float | None:
    """Return the best score of a confirmation, or without one, of a screening."""
    confirmations = [row for row in judged if row.purpose == "confirmation"]
    screenings = [row for row in judged if row.purpose == "screening" and row.panel_id == panel_id]
    return max((share_of(row.outcomes)[0] for row in confirmations or screenings), default=None)
