"""Figures of a run and of a cohort, computed from rows alone."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ledger_lab.costs import (
    Price,
    RunCost,
    RunTime,
    billable_usd,
    cohort_cost,
    energy_cost,
    env_steps_per_s,
    evaluation_share,
    median_time_to_target,
    updates_per_min,
    usd_per_billion_env_steps,
)
from ledger_lab.ledger import AttemptEnded, Cohort, PanelResult, Run, Status
from ledger_lab.meters import TRAINING_PHASES, Phase
from ledger_lab.reports.checkpoints import CheckpointSummary, share_of, summarize_checkpoint
from ledger_lab.reports.clock import saved_at_s, seconds_to_target
from ledger_lab.reports.energy import DeviceSummary, Source, summarize_energy
from ledger_lab.reports.health_findings import HealthSummary, SavedBudget, saved_budget, summarize_health
from ledger_lab.reports.load import HostSummary, RoomSummary, summarize_host, summarize_room
from ledger_lab.reports.ranks import RankSummary, summarize_ranks

_STEP = frozenset({Phase.SIMULATE, Phase.MANAGE})
_UPDATE = frozenset({Phase.RETURNS, Phase.LEARN, Phase.SYNCHRONIZE})


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """Every figure of a run, with its denominator in the name or in the docstring below.

    ``None`` means not measured, or without a denominator.
    """

    run_id: str
    cohort: str | None
    task: str
    rl_library: str
    num_envs: int
    world_size: int
    seed: int
    status: str
    reason: str | None
    device: str
    physics: str
    timing: str
    instance: str
    usd_per_hour: float | None
    """Price of the instance when the run was declared, or the price that the report was asked for [USD/h]."""
    declared_price: dict[str, Any]
    """The price entry as the run declared it, whatever the report was asked for."""
    declared_usd: float | None
    """What the run cost at the declared price [USD]."""
    env_steps: int
    """Environment steps that the learner trained on, over all processes."""
    train_s: float | None
    """Seconds in the training loop: all phases but start-up, compile and evaluation; ``None`` before an iteration."""
    evaluate_s: float | None
    """Seconds in the phase ``evaluate``; ``None`` if the run never evaluated."""
    wall_s: float
    """Seconds of all attempts, from the start of their processes to their ends."""
    env_steps_per_s: float | None
    """Environment steps per second of training."""
    updates_per_min: float | None
    """Iterations per minute of training."""
    wall_to_target_s: float | None
    """Seconds of all attempts until a policy was confirmed to reach the target [s]: start-up, compile, training and
    judging."""
    evaluation_share: float | None
    """``evaluate_s`` ÷ ``wall_s``."""
    peak_gpu_memory_gb: float | None
    """Peak of the process with the largest peak, as for the next field."""
    peak_host_memory_gb: float | None
    energy_kwh: float | None
    """What the run's accelerators drew in all attempts [kWh]."""
    energy_source: Source | None
    """``counter``: their own counters; ``power``: integrated from samples of their power."""
    energy_undefined_reason: str | None
    """Why :attr:`energy_kwh` is ``None``; ``None`` if there is a figure."""
    mean_gpu_utilization: float | None
    """Share of the time in which a kernel ran; the mean over all samples of all accelerators, start-up included."""
    devices: list[DeviceSummary]
    host: HostSummary | None
    room: RoomSummary | None
    ranks: list[RankSummary]
    """Its processes, by rank; none for a run of one process."""
    heldout_successes: int | None
    """Successes of the confirmation that proved a policy; without one, of the last checkpoint screened."""
    heldout_episodes: int | None
    heldout_success: float | None
    heldout_interval: tuple[float, float] | None
    """95 % Wilson interval of the share."""
    invalid_reason: str | None
    """Why scores of the run are invalid and left out; ``None`` if all are valid."""
    target_success: float
    target_reached: bool
    panel: str
    panel_id: str
    began_from: dict[str, Any] | None
    """The checkpoint that the run's networks began from, and its cost, which no other figure includes."""
    billable_usd: float | None
    """Cost of the run [USD]: instance time, plus energy on the user's own hardware."""
    energy_usd: float | None
    """The energy's part of the cost [USD]; ``None`` if the price includes energy."""
    energy_basis: str | None
    """``measured``, ``nominal`` (power times time), or ``mixed`` if only some attempts were measured."""
    usd_per_billion_env_steps: float | None
    phases: dict[str, float]
    """Seconds per phase; they sum to ``wall_s``."""
    fps_step: float | None
    """Environment steps per second of ``simulate + manage``."""
    fps_step_inference: float | None
    """Environment steps per second of ``simulate + manage + infer``."""
    fps_total: float | None
    """The same as ``env_steps_per_s``, named like the two throughputs above."""
    seconds_per_update: float | None
    """Seconds of ``returns + learn + synchronize`` per iteration."""
    checkpoints: list[CheckpointSummary]
    health: list[HealthSummary]
    """Health events of the training, one entry per kind of event."""
    saved_budget: SavedBudget | None
    """The budget left over; ``None`` unless a health event ended the run."""

    @property
    def confirmed(self) -> CheckpointSummary | None:
        """The checkpoint that was confirmed to reach the target."""
        return next((c for c in self.checkpoints if c.confirmed), None)

    @property
    def best(self) -> CheckpointSummary | None:
        """The confirmed checkpoint, else the first checkpoint with the best held-out score."""
        return self.confirmed or max(
            (c for c in self.checkpoints if c.heldout_successes is not None),
            key=lambda c: c.heldout_successes or 0,
            default=None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class CohortSummary:
    """Cost of the runs that were declared together, per task, panel and target."""

    cohort: str | None
    """Name of the cohort; ``None`` for runs without a cohort."""
    task: str
    panel_id: str
    target_success: float
    runs: int
    declared_runs: int | None
    """Declared number of runs, over all tasks; ``None`` if no size was declared."""
    missing_runs: int | None
    """Declared runs that are missing from the ledger."""
    failed_runs: int
    target_reaching_runs: int
    spend_usd: float | None
    """Spend of all runs, failed and unfinished ones included [USD]; ``None`` if a run has no price."""
    runs_of_unknown_energy: int
    """Runs with an hourly price and no cost: their energy is paid on top, and was not measured."""
    usd_per_target_reaching_checkpoint: float | None
    """``spend_usd`` ÷ ``target_reaching_runs``."""
    usd_per_target_reaching_checkpoint_interval: tuple[float, float | None] | None
    """95 % bootstrap interval over the runs [USD]. An upper bound of ``None`` is open: too many resamples had no run
    that reached the target."""
    at_least_usd: float | None
    """If no run reached the target: the spend, a lower bound of the cost of a target-reaching checkpoint [USD]."""
    median_wall_to_target_s: float | None
    """Median time to the target over all runs, including runs that missed the target [s]."""
    median_wall_to_target_exceeds_s: float | None
    """Lower bound of that median, if the median falls among runs that missed the target [s]."""
    undefined_reason: str | None
    """Why there is no cost per target-reaching checkpoint; ``None`` if there is one."""

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return asdict(self)


def summarize_run(run: Run, price: Price | None = None) -> RunSummary:
    """Work out every figure of a run.

    Args:
        run: The run.
        price: Price to use in place of the declared one.

    Returns:
        The summary.
    """
    declared = run.declared
    declared_price = Price.from_dict(declared.price)
    price = price or declared_price
    phase_ns = _phases(run)
    updates, env_steps = _progress(run)
    trained = updates > 0
    train_s = _seconds(phase_ns, TRAINING_PHASES) if trained else None
    step_s = _seconds(phase_ns, _STEP) if trained else None
    step_inference_s = _seconds(phase_ns, _STEP | {Phase.INFER}) if trained else None
    update_s = _seconds(phase_ns, _UPDATE)
    evaluate_s = _seconds(phase_ns, {Phase.EVALUATE}) if Phase.EVALUATE in phase_ns else None
    wall_s = sum(attempt.wall_ns for attempt in run.attempts) / 1e9
    ends = [end for attempt in run.attempts for end in attempt.of(AttemptEnded)]
    energy = summarize_energy(run)
    attempt_wall_s = [attempt.wall_ns / 1e9 for attempt in run.attempts]
    devices, attempt_kwh = declared.devices, energy.attempt_kwh
    spend = functools.partial(billable_usd, attempt_wall_s, devices=devices, attempt_kwh=attempt_kwh)
    drawn = energy_cost(attempt_wall_s, price, devices=devices, attempt_kwh=attempt_kwh)
    usd = spend(price)

    scores: dict[tuple[str, str], PanelResult] = {}
    confirmations: dict[tuple[str, str], PanelResult] = {}
    invalid: str | None = None
    judged = run.judged
    for _, row in judged:
        if row.invalid is not None:
            invalid = row.invalid
        elif row.purpose == "confirmation":
            key = row.checkpoint, row.checkpoint_sha256
            if key not in confirmations or not confirmations[key].confirms:
                confirmations[key] = row  # what is proven stays proven
        elif row.panel_id == declared.panel_id:
            # The first score counts: scoring again until a policy passes would bias it.
            scores.setdefault((row.checkpoint, row.checkpoint_sha256), row)
    saved, at_s = [(c, (c.path, c.sha256)) for c in run.checkpoints], saved_at_s(run)
    checkpoints = [summarize_checkpoint(c, at_s[c.path], scores.get(key), confirmations.get(key)) for c, key in saved]
    proof = next((row for row in confirmations.values() if row.confirms), None)
    shown = proof or next((scores[key] for _, key in reversed(saved) if key in scores), None)
    successes, episodes = (shown.outcomes.successes, shown.outcomes.episodes) if shown else (None, None)
    share, interval = share_of(shown.outcomes) if shown else (None, None)
    return RunSummary(
        run_id=declared.run_id,
        cohort=declared.cohort,
        task=declared.task,
        rl_library=declared.rl_library,
        num_envs=declared.num_envs,
        world_size=declared.world_size,
        seed=declared.seed,
        status=str(run.attempts[-1].status if run.attempts else Status.LOST),
        reason=run.attempts[-1].ended.reason if run.attempts and run.attempts[-1].ended else None,
        device=declared.device,
        physics=declared.physics,
        timing=declared.timing,
        instance=price.instance,
        usd_per_hour=price.usd_per_hour,
        declared_price=declared_price.to_dict(),
        declared_usd=spend(declared_price),
        env_steps=env_steps,
        train_s=train_s,
        evaluate_s=evaluate_s,
        wall_s=wall_s,
        env_steps_per_s=env_steps_per_s(env_steps, train_s),
        updates_per_min=updates_per_min(updates, train_s),
        wall_to_target_s=seconds_to_target(run, judged),
        evaluation_share=evaluation_share(evaluate_s, wall_s),
        peak_gpu_memory_gb=_peak_gb([end.peak_gpu_memory_bytes for end in ends]),
        peak_host_memory_gb=_peak_gb([end.peak_host_memory_bytes for end in ends]),
        energy_kwh=energy.kwh,
        energy_source=energy.source,
        energy_undefined_reason=energy.undefined_reason,
        mean_gpu_utilization=energy.mean_utilization,
        devices=energy.devices,
        host=summarize_host(run),
        room=summarize_room(run.attempts),
        ranks=summarize_ranks(run),
        heldout_successes=successes,
        heldout_episodes=episodes,
        heldout_success=share,
        heldout_interval=interval,
        invalid_reason=invalid,
        target_success=declared.target_success,
        target_reached=proof is not None,
        panel=declared.panel,
        panel_id=declared.panel_id,
        began_from=declared.began_from,
        billable_usd=usd,
        energy_usd=drawn.usd if drawn else None,
        energy_basis=drawn.basis if drawn else None,
        usd_per_billion_env_steps=usd_per_billion_env_steps(usd, env_steps),
        phases={phase: nanoseconds / 1e9 for phase, nanoseconds in phase_ns.items()},
        fps_step=env_steps_per_s(env_steps, step_s),
        fps_step_inference=env_steps_per_s(env_steps, step_inference_s),
        fps_total=env_steps_per_s(env_steps, train_s),
        seconds_per_update=update_s / updates if trained else None,
        checkpoints=checkpoints,
        health=summarize_health(run),
        saved_budget=saved_budget(run, price),
    )


def summarize_cohorts(summaries: Sequence[RunSummary], declared: Sequence[Cohort] = ()) -> list[CohortSummary]:
    """Work out the cost of each cohort. Runs on different tasks or panels are never added up.

    Args:
        summaries: Runs of a ledger.
        declared: The ledger's cohorts of declared size. They list all their runs, so that a run outside the summaries
            does not count as missing.

    Returns:
        One summary per cohort, task and panel, in the order of their first runs.
    """
    groups: dict[tuple[str | None, str, str, float], list[RunSummary]] = {}
    for summary in summaries:
        key = (summary.cohort, summary.task, summary.panel_id, summary.target_success)
        groups.setdefault(key, []).append(summary)
    cohorts = []
    sizes = {cohort.name: cohort for cohort in declared}
    for (cohort, task, panel_id, target), members in groups.items():
        cost = cohort_cost(
            [
                RunCost(
                    run=member.run_id,
                    usd=member.billable_usd,
                    reached_target=member.target_reached,
                    failed=Status(member.status).failed,
                )
                for member in members
            ]
        )
        median = median_time_to_target(
            [RunTime(wall_s=member.wall_s, to_target_s=member.wall_to_target_s) for member in members]
        )
        size = None if cohort is None else sizes.get(cohort)
        cohorts.append(
            CohortSummary(
                cohort=cohort,
                task=task,
                panel_id=panel_id,
                target_success=target,
                runs=cost.runs,
                declared_runs=size.size if size else None,
                missing_runs=size.missing if size else None,
                failed_runs=cost.failed_runs,
                target_reaching_runs=cost.target_reaching_runs,
                spend_usd=cost.spend_usd,
                runs_of_unknown_energy=sum(
                    member.usd_per_hour is not None and member.billable_usd is None for member in members
                ),
                usd_per_target_reaching_checkpoint=cost.usd_per_target_reaching_checkpoint,
                usd_per_target_reaching_checkpoint_interval=cost.usd_interval,
                at_least_usd=cost.at_least_usd,
                median_wall_to_target_s=median.exactly_s,
                median_wall_to_target_exceeds_s=median.more_than_s,
                undefined_reason=cost.undefined_reason,
            )
        )
    return cohorts


def _progress(run: Run) -> tuple[int, int]:
    """Return iterations and environment steps of the training, without those that were lost."""
    if len(run.attempts) > 1:
        kept = [window for _, window in run.windows]
        counts = [(window.iteration or 0, window.env_steps) for window in kept]
    else:  # no window needs to be read
        counts = [(attempt.sums.iterations, attempt.sums.env_steps) for attempt in run.attempts]
    return max((each for each, _ in counts), default=0), max((each for _, each in counts), default=0)


def _phases(run: Run) -> dict[str, int]:
    """Return nanoseconds per phase over all attempts; they sum to the attempts' wall-clock time."""
    total: Counter[str] = Counter()
    for attempt in run.attempts:
        total.update(attempt.sums.phase_ns)
        if len(run.attempts) > 1:  # else no window needs to be read
            lost = [window for window in attempt.windows if run.is_lost(attempt, window)]
            for spent_ns in (window.phase_ns for window in lost):
                total.subtract(spent_ns)
                total[Phase.RESTART] += sum(spent_ns.values())
        # A killed attempt may have written rows after its last window, and an attempt that ended takes a while to exit.
        # If the first process could not write its end, another process did, by its own clock.
        ended_ns = attempt.wall_ns if attempt.ended is None else max(attempt.ended.wall_ns, attempt.sums.wall_ns)
        total[Phase.RESTART if run.led_on(attempt) else Phase.UNATTRIBUTED] += ended_ns - attempt.sums.wall_ns
        total[Phase.SHUTDOWN] += attempt.wall_ns - ended_ns
    return {str(phase): total[phase] for phase in Phase if total[phase]}


def _seconds(phase_ns: dict[str, int], phases: frozenset[Phase] | set[Phase]) -> float:
    """Return the sum of some phases [s]."""
    return sum(phase_ns.get(phase, 0) for phase in phases) / 1e9


def _peak_gb(peaks_bytes: Sequence[int | None]) -> float | None:
    """Return the largest peak [GB = 10^9 bytes]; ``None`` if none was measured."""
    measured = [peak for peak in peaks_bytes if peak is not None]
    return max(measured) / 1e9 if measured else None
