"""What a watch of a ledger is given, and what it finds: progress of live runs, spend, and alerts. All is plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec

from ledger_lab.ledger.runs import silence_limit
from ledger_lab.reports.facts import HealthSummary, summarize_health

SCHEMA_VERSION: Final = 1
"""Version of the JSON document. It rises when a key changes its meaning or is removed."""

CONFIDENCE: Final = 0.8
"""Probability with which the interval of an :class:`Estimate` should hold. With 95 %, nine of ten intervals would end
at the largest number of iterations, because few cohorts have forty runs."""
TAIL: Final = (1 - CONFIDENCE) / 2
"""Probability of each side beyond the interval."""


HUNG_AFTER_S: Final = silence_limit(supervised=False).total_seconds()
"""How long a supervised training may write no row [s]. It is the ledger's own limit for processes without a supervisor:
such a process, too, writes only its own rows, and is silent for minutes while kernels are compiled."""
IDLE_AFTER_S: Final = 600.0
"""How long a machine may stand idle after its run [s]: long enough for a script to start the next training, or to copy
the results away."""
QUEUE_AFTER_S: Final = 4 * 3600.0
"""How long all trainings of a submission may wait while none of them runs [s]. Shorter waits are usual on shared
clusters."""
FORGET_AFTER_S: Final = 24 * 3600.0
"""How long after its end a run or a machine is still told [s]: whoever looks once a day misses nothing."""


@dataclass(frozen=True, kw_only=True)
class QueuedTraining:
    """A submitted training that waits or runs, according to its scheduler."""

    name: str
    """Name of the training in its plan."""
    plan: str
    """Name of the plan: the study, or the script."""
    job: str
    """Id of the job."""
    index: int
    """Index of the training in its plan."""
    runs: bool
    """Whether its job runs."""
    said: str
    """State of the job in words."""
    submitted_at: datetime
    started_at: datetime | None
    """When the latest part of its job started; ``None`` if none has, or it is unknown."""
    run_directory: Path | None
    """Directory of the run that it made; ``None`` if it made none yet."""
    output: Path
    """File with what it printed."""
    cancel: str
    """Command that cancels the job."""

    @property
    def id(self) -> str:
        """The job with the index of the training."""
        return f"{self.job}_{self.index}"


@dataclass(frozen=True, kw_only=True)
class PlannedStudy:
    """What a watch needs to know of a study: a forecast counts the trainings that it plans."""

    name: str
    seeds: tuple[int, ...]
    """Seeds of the trainings of each arm."""
    cohorts: tuple[str, ...]
    """The cohort of each arm."""
    budget_usd: float | None = None
    """What it may cost [USD]."""
    budget_h: float | None = None
    """Wall-clock time that its trainings may take together [h]."""


class State(StrEnum):
    """Where a run, or a training that has not started, stands."""

    QUEUED = "queued"
    """Its job waits in the queue of a scheduler, and no attempt has started yet."""
    RUNNING = "running"
    """Its last attempt runs, and writes rows."""
    HUNG = "hung"
    """Its supervisor writes rows, and the training itself does not."""
    SILENT = "silent"
    """A process of it exists, or its job runs, but no process writes rows."""
    LOST = "lost"
    """It ended without a row that says so, or its machine can't be reached."""
    PREEMPTED = "preempted"
    """The system ended its last attempt, and it can be resumed."""
    ENDED = "ended"
    """Its last attempt has ended for good."""


AlertKind = Literal[
    "hung", "silent", "lost", "over_budget", "budget_at_risk", "idle", "stuck_queue", "health", "overdue"
]
"""What can waste money."""

Severity = Literal["critical", "warning", "notice"]
"""How sure it is that something must be done. ``critical``: money is being wasted, or a study can't finish.
``warning``: something is probably wrong. ``notice``: the ledger can't tell; the exit status stays 0."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate of an amount that is not known yet, in the unit of the field that holds it."""

    expected: float | None
    """The median for the time and the cost that a run has left; the mean for a forecast. ``None`` if only a bound is
    known."""
    low: float | None
    """Lower end of the 80 % interval; ``None`` if there is none."""
    high: float | None
    """Upper end of the 80 % interval. If :attr:`expected` is ``None``, it is an upper bound at the present speed;
    ``None`` if there is none."""
    basis: str
    """Where the estimate comes from, in words."""

    def times(self, factor: float) -> Estimate:
        """Return the estimate in another unit.

        Args:
            factor: Size of the present unit in the other one.
        """
        amounts = (None if each is None else factor * each for each in (self.expected, self.low, self.high))
        return Estimate(**dict(zip(("expected", "low", "high"), amounts, strict=True)), basis=self.basis)


def _of_run[Value](read: Callable[[Any], Value], missing: Any = MISSING) -> Value:
    """Declare a field of :class:`RunProgress`.

    Args:
        read: Computes it from a :class:`~ledger_lab.reports.watch.progress.WatchedRun`.
        missing: Its value for a training that has not started.
    """
    return cast(Value, field(default=missing, metadata={"read": read}))


@dataclass(frozen=True, kw_only=True)
class RunProgress:
    """Where a run stands on its way to a verdict. A training that waits in a queue has no run yet."""

    run_id: str | None = _of_run(lambda of: of.run.run_id, None)
    """``None`` for a training that has not started."""
    name: str = _of_run(lambda of: of.run.run_id)
    """Id of the run, or the name of the training in its plan."""
    state: State = _of_run(lambda of: of.state)
    said: str | None = _of_run(lambda of: None if of.job is None else of.job.said)
    """What its scheduler says about its job, in words; ``None`` if none was asked, or it does not know the job."""
    since: datetime = _of_run(lambda of: of.since)
    """When the state began: for a waiting job, its submission; for a running attempt, its start; else its last sign of
    life."""
    last_row_at: datetime | None = _of_run(lambda of: of.last_row_at, None)
    """When any of its processes wrote its last row."""
    host: str | None = _of_run(lambda of: of.host, None)
    """Machine of the first process of its last attempt."""
    study: str | None = _of_run(lambda of: of.study, None)
    """The study that it belongs to, if this is known."""
    cohort: str | None = _of_run(lambda of: of.run.cohort, None)
    task: str | None = _of_run(lambda of: of.declared.task, None)
    rl_library: str | None = _of_run(lambda of: of.declared.rl_library, None)
    seed: int | None = _of_run(lambda of: of.declared.seed, None)
    attempts: int = _of_run(lambda of: len(of.run.attempts), 0)
    """Attempts so far."""
    target_success: float | None = _of_run(lambda of: of.declared.target_success, None)
    target_reached: bool = _of_run(lambda of: of.facts.proof is not None, False)
    checks: int = _of_run(lambda of: len(of.scores("check")), 0)
    """Checks so far; scores that are invalid do not count."""
    proofs: int = _of_run(lambda of: len({row.proof for row in of.scores("proof")}), 0)
    """Proofs so far, passed or not."""
    best_score: float | None = _of_run(lambda of: of.best_score, None)
    """Largest share of successes of a check, or of a proof if one was made."""
    iterations: int = _of_run(lambda of: of.facts.updates, 0)
    """Iterations done."""
    max_iterations: int | None = _of_run(lambda of: of.declared.max_iterations, None)
    wall_s: float = _of_run(lambda of: of.facts.wall_s, 0.0)
    """Wall-clock time of all attempts so far [s]."""
    usd: float | None = _of_run(lambda of: of.usd, None)
    """Spent so far [USD]; ``None`` if it has no price."""
    usd_per_hour: float | None = _of_run(lambda of: of.usd_per_hour, None)
    """What it costs while it goes on [USD/h]; ``None`` if it has no price."""
    left_s: Estimate | None = _of_run(lambda of: of.left_s, None)
    """Time until it ends: until a policy is proven if it stops then, and at most until its last iteration or its
    time limit [s]. If it is hung, silent, lost or preempted, it is the time that it takes once it goes on. ``None`` if
    unknown."""
    left_usd: Estimate | None = _of_run(lambda of: of.left_usd, None)
    """Cost of that time [USD]; ``None`` if unknown."""
    health: tuple[HealthSummary, ...] = _of_run(lambda of: tuple(summarize_health(of.run)), ())
    """Its health events."""

    @property
    def is_live(self) -> bool:
        """Whether it waits, or costs money now."""
        return self.state in (State.QUEUED, State.RUNNING, State.HUNG, State.SILENT)


@dataclass(frozen=True, kw_only=True)
class Spend:
    """Spend of a cohort or of a study, and what will be spent until all planned trainings have ended."""

    kind: Literal["cohort", "study"]
    name: str
    runs: int
    """Runs in the ledger."""
    live_runs: int
    """Runs that go on now."""
    planned: int | None
    """Trainings that the study file, or the declaration of the cohort, plans; ``None`` if there is no plan."""
    missing: int | None
    """Planned trainings that must still be started, or started again; those that are hung or silent are among them."""
    spent_usd: float | None
    """Spend of all attempts of all runs, failed and lost ones included [USD]; ``None`` if a run has no price."""
    spent_h: float
    """Wall-clock time of the same attempts, added up [h]."""
    evaluation_usd: float | None
    """Cost of stand-alone evaluations, which no other figure contains [USD]; ``None`` if there were none, or their cost
    is unknown."""
    usd_per_hour: float | None
    """What the live runs cost together [USD/h]; ``None`` if one has no price."""
    forecast_usd: Estimate | None
    """Spend when all planned trainings have ended [USD]; ``None`` if unknown."""
    forecast_h: Estimate | None
    """Their wall-clock time, added up [h]; ``None`` if unknown."""
    budget_usd: float | None
    budget_h: float | None
    unknown: str | None
    """Why there is no forecast; ``None`` if there is one."""


@dataclass(frozen=True)
class Alert:
    """Something that costs money, or will, and what to do about it."""

    kind: AlertKind
    severity: Severity
    subject_kind: Literal["run", "study", "machine", "queue"]
    subject: str
    """Id of the run, name of the study or the machine, or job of the queue."""
    since: datetime | None
    """When it began; ``None`` if this is unknown."""
    usd_per_hour: float | None
    """What it costs as long as nobody does anything [USD/h]. ``None`` if this is unknown; the sentence says why."""
    sentence: str
    """What is known, and what is not."""
    way_out: str
    """Command to run, or what to do."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Everything that a watch of a ledger found."""

    at: datetime
    """Time of the watch."""
    log_root: str
    runs: tuple[RunProgress, ...]
    """Live runs, and runs that were preempted or lost lately, oldest first; then trainings that wait in a queue."""
    cohorts: tuple[Spend, ...]
    """Cohorts with such a run, by name."""
    studies: tuple[Spend, ...]
    """Studies with such a run, and those that were asked for, by name."""
    alerts: tuple[Alert, ...]
    """Alerts, the most severe first."""
    notes: tuple[str, ...] = ()
    """What could not be found out, for example because a scheduler does not answer."""
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; times are in ISO 8601."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found
