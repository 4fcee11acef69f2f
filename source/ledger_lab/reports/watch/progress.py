"""Where a run stands on its way to a verdict: signs of life in the ledger, what its scheduler says, and what is left.

Whether a run is lost is decided by the ledger alone (:attr:`ledger_lab.ledger.Attempt.status`).

**The time that a run has left.** With earlier runs of the same settings, the estimate is their Kaplan-Meier curve on
condition that the run has come this far. The run itself is added to the runs that needed longer than it has taken so
far. Nothing tells it from them, so it needs longer than the ``k``-th of ``m`` such runs with a probability of ``1 - k /
(m + 1)``. Therefore the interval holds for any distribution of the times, and few earlier runs give a wide interval. A
run also ends at its last iteration, or at its time limit (``--limit_s``); the shorter of the two times bounds every
estimate, and is the whole estimate if there are no earlier runs. ``python -m benchmarks time_left`` measures how often
the interval holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Final

from ledger_lab.ledger import JournalContent, PanelResult, Run, RunDeclared, StateRestored, Status
from ledger_lab.ledger.costs.model import billable_usd
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.ledger.costs.time_to_target import RunTime, kaplan_meier
from ledger_lab.ledger.meters.phases import LOOP_PHASES
from ledger_lab.reports.checkpoints import share_of
from ledger_lab.reports.facts import RunFacts, seconds_to_target
from ledger_lab.reports.watch.model import HUNG_AFTER_S, TAIL, Estimate, QueuedTraining, State
from ledger_lab.units import counted

_ROUNDING: Final = 1e-9
_HOUR_S: Final = 3600.0
_END: Final = "its last iteration, at its own speed, or its time limit"

_ITERATIONS_OF_SILENCE: Final = 3.0
"""A training whose iterations take long is hung after so many times of its mean iteration, if that is longer than the
limit."""

_MOST_EARLIER_RUNS: Final = 200
"""Largest number of earlier runs that are read for one run, the newest ones. More would not narrow the estimate."""


@dataclass(frozen=True, kw_only=True)
class WatchedRun:
    """A run, and where it stands. Its sums and its progress are only computed where they are needed."""

    run: Run
    state: State
    near: Callable[[], Iterable[WatchedRun]]
    """Returns runs that may have the same settings."""
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

    @property
    def declared(self) -> RunDeclared:
        """Its declaration."""
        return self.run.declared

    @cached_property
    def time(self) -> RunTime:
        """Its time to the target, and its whole time."""
        wall_s = sum(attempt.wall_ns for attempt in self.run.attempts) / 1e9
        return RunTime(wall_s=wall_s, to_target_s=seconds_to_target(self.run, self.run.judged))

    @cached_property
    def earlier(self) -> list[RunTime]:
        """Times of the other runs with the same settings. They may still go on."""
        own = settings_of(self.declared)
        return [each.time for each in self.near() if each.run.attempts and settings_of(each.declared) == own]

    @cached_property
    def last_row_at(self) -> datetime:
        """When any of its processes wrote its last row."""
        return last_row_at(self.run)

    @property
    def since(self) -> datetime:
        """When its state began: for a running attempt, its start; else its last sign of life."""
        if self.state is not State.RUNNING or not self.run.attempts:
            return self.last_row_at
        return min(each.first_time for each in self.run.attempts[-1].journals)

    @property
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
        return self.facts.cost_usd(self.facts.price)

    @cached_property
    def usd_per_hour(self) -> float | None:
        """What it costs while it goes on [USD/h]; ``None`` without a price."""
        return usd_per_hour(self.facts)

    @cached_property
    def left_s(self) -> Estimate | None:
        """Time that it has left [s]."""
        if self.state is State.ENDED:
            return None
        if not self.declared.stop_at_target:
            return time_to_end(self.run)
        return time_left(self.earlier, self.facts.wall_s, seconds_to_end(self.run))

    @property
    def left_usd(self) -> Estimate | None:
        """Cost of the time that it has left [USD]."""
        if self.left_s is None or self.usd_per_hour is None:
            return None
        return self.left_s.times(self.usd_per_hour / _HOUR_S)

    def scores(self, purpose: str) -> list[PanelResult]:
        """Return its valid checks or proofs."""
        return [row for _, row in self.facts.judged if row.invalid is None and row.purpose == purpose]

    @property
    def best_score(self) -> float | None:
        """The share of the proof; else the best share of a proof, and without one, of a check."""
        if (proof := self.facts.proof) is not None:
            return proof.share(self.declared.target_success).share
        own = [row for row in self.scores("check") if row.panel_id == self.declared.panel_id]
        return max((share_of(row.outcomes)[0] for row in self.scores("proof") or own), default=None)


def state_of(run: Run, now: datetime) -> State:
    """Return where a run stands, according to the ledger.

    Args:
        run: The run.
        now: The time.
    """
    if not run.attempts:
        silent_s = (now - run.declared_at).total_seconds()
        return State.RUNNING if silent_s < HUNG_AFTER_S else State.LOST
    attempt = run.attempts[-1]
    status = attempt.status
    if status in (Status.RUNNING, Status.LOST, Status.PREEMPTED) and run.proven:
        return State.ENDED  # it has done its work, although its last attempt may not have written its end
    if status is Status.RUNNING:
        if now - last_row_at(run) > attempt.silence_limit:
            return State.SILENT  # the process exists on this machine, or it would be lost
        silent_s = (now - trainer_row_at(run)).total_seconds()
        if not attempt.supervisions or silent_s <= HUNG_AFTER_S:
            return State.RUNNING
        sums = attempt.sums  # a resumed attempt begins with the iterations of earlier ones, so its windows count
        iteration_s = sums.wall_ns / 1e9 / sums.count if sums.iterations else 0.0
        return State.HUNG if silent_s > _ITERATIONS_OF_SILENCE * iteration_s else State.RUNNING
    if status is Status.LOST:
        return State.LOST
    return State.PREEMPTED if status is Status.PREEMPTED else State.ENDED


def last_row_at(run: Run) -> datetime:
    """Return when any process of a run wrote its last row."""
    return max((_last(attempt.journals) for attempt in run.attempts), default=run.declared_at)


def trainer_row_at(run: Run) -> datetime:
    """Return when the training itself wrote its last row, in the last attempt.

    Before its first row, it is the start of its supervisor.
    """
    attempt = run.attempts[-1]
    if attempt.ranks:
        return _last(attempt.ranks)
    return min(journal.first_time for journal in attempt.journals)


def _last(journals: Iterable[JournalContent]) -> datetime:
    """Return when the last row of some journals was written."""
    return max(journal.last_time for journal in journals)


def has_changed(run: Run, since: datetime) -> bool:
    """Tell whether a file in the directory of a run was written to since some time. No journal is read for that.

    Args:
        run: The run.
        since: The time.
    """
    try:
        with os.scandir(run.directory) as files:
            return any(file.stat().st_mtime >= since.timestamp() for file in files)
    except FileNotFoundError:  # a file was replaced meanwhile, or the run was removed
        return run.directory.exists()


def settings_of(declared: RunDeclared) -> Hashable:
    """Return what two runs must have in common, so that one says something about the time of the other.

    It is task, panel, target, library, configuration without seeds, environments and processes, the checkpoint that the
    networks began with, and the kind of machine.

    Args:
        declared: Declaration of a run.
    """
    on_cpu = not declared.device.startswith("cuda")
    return (
        declared.task,
        declared.panel_id,
        declared.target_success,
        declared.rl_library,
        tuple(sorted(declared.config_sha256.items())),
        declared.physics,
        declared.num_envs,
        declared.world_size,
        declared.machines,
        None if declared.began_from is None else declared.began_from["sha256"],
        on_cpu,
        declared.machine,
        tuple(declared.hardware.get(key) for key in ("cpu_cores", "cpu_quota") if on_cpu),
    )


def near_runs(run: Run, ledger_runs: Sequence[Run]) -> list[Run]:
    """Return the newest other runs of the same cohort, or in the same folder: that of their library and experiment.

    Other runs seldom have the same settings. No journal is read for that.

    Args:
        run: The run.
        ledger_runs: All runs of the ledger, oldest first.
    """
    folder = run.directory.parent
    near = (
        other
        for other in reversed(ledger_runs)
        if other.run_id != run.run_id
        and ((run.cohort is not None and other.cohort == run.cohort) or other.directory.parent == folder)
        and other.directory.is_dir()  # it may have been removed since the ledger was read
    )
    return [*islice(near, _MOST_EARLIER_RUNS)][::-1]


def seconds_to_last_iteration(run: Run) -> float | None:
    """Return the time until the last iteration of a run, at the speed of its last attempt [s].

    The speed is that of the training loop, scoring included. Neither start-up nor the time after the last row counts.

    Args:
        run: The run.

    Returns:
        ``None`` before the first iteration of the attempt.
    """
    if not run.attempts:
        return None
    attempt = run.attempts[-1]
    before = max((row.iteration for row in attempt.of(StateRestored)), default=0)
    done = attempt.sums.iterations - before
    if done <= 0:
        return None
    loop_s = sum(ns for phase, ns in attempt.sums.phase_ns.items() if phase in LOOP_PHASES) / 1e9
    return max(run.declared.max_iterations - attempt.sums.iterations, 0) * loop_s / done


def seconds_to_end(run: Run) -> float | None:
    """Return the time until a run ends short of its target, at its last iteration or its time limit [s].

    Args:
        run: The run.

    Returns:
        ``None`` if the time is unknown.
    """
    known = [left_s for left_s in (seconds_to_last_iteration(run), run.limit_left_s) if left_s is not None]
    return max(min(known), 0.0) if known else None


def time_left(earlier: Sequence[RunTime], spent_s: float, bound_s: float | None) -> Estimate | None:
    """Estimate the time until a run is proven to reach its target, or ends short of it.

    Args:
        earlier: Earlier runs with the same settings. For the estimate, a run that ended short of the target would have
            gone on like the others.
        spent_s: Wall-clock time of the run so far [s].
        bound_s: Time until it ends short of its target [s]; ``None`` if unknown.

    Returns:
        The estimate [s]; ``None`` if nothing is known.
    """
    beyond = [run for run in earlier if run.observed_s > spent_s]
    later = sum(run.to_target_s is not None for run in beyond)
    basis = f"{later} of {counted(len(earlier), 'earlier run')} with the same settings reached the target later"
    if not later:
        if bound_s is None:
            return None
        return Estimate(expected=None, low=None, high=bound_s, basis=f"at most until {_END}: {basis}")
    endless = RunTime(wall_s=2 * max(run.observed_s for run in beyond) + 1, to_target_s=None)
    steps = kaplan_meier([*beyond, endless])  # the run itself comes after all of them
    low_s = max((t for t, above in steps if 1 - above <= TAIL + _ROUNDING), default=spent_s) - spent_s
    bounds = [] if bound_s is None else [bound_s]

    def first_below(share: float) -> float | None:
        return min([*[t - spent_s for t, above in steps if above <= share + _ROUNDING], *bounds], default=None)

    return Estimate(expected=first_below(0.5), low=min([low_s, *bounds]), high=first_below(TAIL), basis=basis)


def time_to_end(run: Run) -> Estimate | None:
    """Estimate the time until the end of a run that does not end at its target [s].

    Args:
        run: The run.

    Returns:
        The estimate; only a bound before its first iteration, and ``None`` if nothing is known.
    """
    if (bound_s := seconds_to_end(run)) is None:
        return None
    is_known = seconds_to_last_iteration(run) is not None
    basis = f"until {_END}, because it does not stop at its target"
    return Estimate(expected=bound_s if is_known else None, low=None, high=None if is_known else bound_s, basis=basis)


def usd_per_hour(facts: RunFacts) -> float | None:
    """Return what a run costs per hour while it goes on [USD/h].

    The power of hardware that the user owns is taken to stay that of the last attempt.

    Args:
        facts: The run.

    Returns:
        The cost; ``None`` if the run has no price, or the energy that it needs is unknown.
    """
    if not facts.run.attempts:
        return None
    wall_h, kwh = facts.run.attempts[-1].wall_ns / (1e9 * _HOUR_S), [*facts.energy.attempt_kwh][-1]
    hours = max(1.0, facts.price.billing_granularity_s / _HOUR_S)  # because a price may be rounded up to days
    cost = billable_usd(
        [hours * _HOUR_S],
        facts.price,
        devices=facts.declared.devices,
        machines=facts.declared.machines,
        attempt_kwh=[None if kwh is None or not wall_h else hours * kwh / wall_h],
    )
    return None if cost is None else cost / hours
