"""Runs of a ledger as points of scaling studies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ledger_lab.ledger import Run, RunDeclared, Status
from ledger_lab.ledger.comparability import settings
from ledger_lab.ledger.costs import Price, billable_usd, sum_if_known
from ledger_lab.ledger.libraries import replays
from ledger_lab.ledger.meters import TRAINING_PHASES, Phase
from ledger_lab.reports.clock import Moment, target_moment, time_until
from ledger_lab.reports.facts import RunFacts
from ledger_lab.reports.gradient_noise import NoisePart
from ledger_lab.reports.summary import RunSummary
from ledger_lab.studies.scaling.laws import Figure
from ledger_lab.studies.scaling.points import Identity, ScaledRun

_SIZE = ("physics=", "env.scene.num_envs=")
"""Beginnings of overrides that :class:`ScaledRun` has in other fields."""


def scaled_runs(runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None = None) -> list[ScaledRun]:
    """Return runs as points of scaling studies. A run without an attempt is none: it took no time and tells nothing.

    Args:
        runs: The runs.
        summaries: Their summaries, in the same order.
        price: Price that replaces the declared prices.
    """
    begun = [(run, summary) for run, summary in zip(runs, summaries, strict=True) if run.attempts]
    scaled = [scaled_run(run, summary, price) for run, summary in begun]
    return mark_repeated([run for run, _ in begun], scaled)


def mark_repeated(runs: Sequence[Run], scaled: Sequence[ScaledRun]) -> list[ScaledRun]:
    """Mark the runs for which another run stands, and add their cost to it.

    As in :mod:`ledger_lab.reports.groups`, but also for runs of different cohorts: something outside of a run ended
    it, and the training was started again later, or an earlier run had made the same training.

    Args:
        runs: The runs.
        scaled: The same runs as points of scaling studies.
    """
    oldest_first = sorted(runs, key=lambda run: run.declared_at)
    latest = {(run.cohort, run.declared.configuration): run.run_id for run in oldest_first}
    first: dict[tuple[str, bool], str] = {}
    stands: dict[str, str] = {}
    for run in oldest_first:
        if run.attempts and run.cohort is not None and not run.has_finished():
            stands[run.run_id] = latest[run.cohort, run.declared.configuration]
        elif run.attempts:
            stands[run.run_id] = first.setdefault((run.declared.training, run.attempts[-1].status.failed), run.run_id)
    spent: dict[str, list[float | None]] = {}
    for each in scaled:
        if (standing := stands.get(each.run_id, each.run_id)) != each.run_id:
            spent.setdefault(standing, []).append(each.billable_usd)
    return [
        replace(
            each,
            repeated=stands.get(each.run_id, each.run_id) != each.run_id,
            repeated_usd=sum_if_known(spent.get(each.run_id, [])),
        )
        for each in scaled
    ]


def scaled_run(run: Run, summary: RunSummary, price: Price | None = None) -> ScaledRun:
    """Return a run as a point of a scaling study.

    Args:
        run: The run.
        summary: Its summary.
        price: Price that replaces the declared price; the summary must have been made with it.
    """
    declared, facts = run.declared, RunFacts(run, price)
    moment = target_moment(facts.judged)
    on_gpu = declared.device.startswith("cuda")
    limit_steps = declared.max_iterations * declared.env_steps_per_iteration
    ended_early = moment is None and summary.status != Status.COMPLETED
    return ScaledRun(
        run_id=summary.run_id,
        cohort=summary.cohort,
        task=summary.task,
        rl_library=summary.rl_library,
        physics=summary.physics,
        seed=summary.seed,
        code=declared.code,
        treatment=" ".join(_treatment(declared)),
        processes=summary.world_size,
        machines=declared.machines or (1 if declared.world_size == 1 else None),
        num_envs=summary.num_envs,
        horizon=declared.horizon,
        minibatches=None if replays(summary.algorithm) else declared.minibatches,
        instance=summary.instance,
        price=facts.price,
        usd_per_hour=summary.usd_per_hour,
        accelerators=declared.devices if on_gpu else 0,
        device=summary.device,
        hardware=declared.machine,
        panel=summary.panel,
        panel_id=summary.panel_id,
        target_success=summary.target_success,
        fps_step=summary.fps_step,
        fps_step_inference=summary.fps_step_inference,
        fps_total=summary.fps_total,
        epoch_s=facts.loop_s / facts.updates if facts.loop_s and facts.updates else None,
        phases=summary.phases,
        identity=_whole(facts) if moment is None else _until(run, moment),
        status=summary.status,
        reached=moment is not None,
        env_steps=summary.env_steps,
        limit_steps=summary.env_steps if ended_early else limit_steps,
        wall_s=summary.wall_s,
        cost_to_target_usd=None if moment is None else _cost_until(facts, moment),
        billable_usd=summary.billable_usd,
        interrupted=bool(run.attempts) and moment is None and not run.has_finished(),
        measured_by=summary.measured_by,
        settings=settings(declared),
        gradient_noise=_noise(summary.gradient_noise[-1]) if summary.gradient_noise else None,
    )


def _noise(part: NoisePart) -> Figure:
    """Return the noise of a part of a training; what is unlimited is infinite."""
    value = math.inf if part.scale is None else part.scale
    if part.interval is None:
        return Figure(value=value, interval=None)
    low, high = part.interval
    return Figure(value=value, interval=(low, math.inf if high is None else high))


def _treatment(declared: RunDeclared) -> list[str]:
    """Return what was changed besides the size, as flags and overrides.

    What LedgerLab itself derived from the size, such as a scaled learning rate, is not in a request: only its rule is.
    """
    request = declared.request or {"overrides": declared.overrides}
    found = sorted(each for each in request.get("overrides", ()) if not each.startswith(_SIZE))
    if rule := request.get("scale_lr"):
        found.append(f"--scale_lr {'sqrt' if rule is True else rule}")
    if request.get("keep_minibatch_size"):
        found.append("--keep_minibatch_size")
    if declared.eval_every is not None:
        found.append(f"--eval_every {declared.eval_every}")
    if declared.timing == "synchronized":
        found.append("--timing synchronized")
    if declared.agent is not None:
        found.append(f"--agent {declared.agent}")
    if declared.began_from is not None:
        found.append(f"--checkpoint {declared.began_from['run_id']}")
    return found


def _whole(facts: RunFacts) -> Identity:
    """Return where the time of a whole run went."""
    return _identity(facts.wall_s, facts.phase_ns, facts.env_steps, split_s=0.0)


def _until(run: Run, moment: Moment) -> Identity:
    """Return where the time until a moment went."""
    until = time_until(run, moment)
    return _identity(until.passed_ns / 1e9, until.phase_ns, until.env_steps, split_s=until.split_ns / 1e9)


def _identity(time_s: float, phase_ns: Mapping[str, int], steps: int, *, split_s: float) -> Identity:
    """Sort phases into the parts of the identity."""

    def seconds(*phases: Phase) -> float:
        return sum(phase_ns.get(phase, 0) for phase in phases) / 1e9

    return Identity(
        time_s=time_s,
        start_up_s=seconds(Phase.STARTUP, Phase.COMPILE),
        steps=steps,
        training_s=seconds(*TRAINING_PHASES),
        scoring_s=seconds(Phase.EVALUATE),
        interruptions_s=seconds(Phase.RESTART, Phase.SUSPENDED, Phase.SHUTDOWN),
        split_s=split_s,
    )


def _cost_until(facts: RunFacts, moment: Moment) -> float | None:
    """Return what a run would have cost if it had ended at a moment [USD]; ``None`` if it has no price.

    The energy of the attempt that the moment falls into counts by its share of the time.
    """
    earlier = [each for each in facts.run.attempts if each.number < moment.attempt.number]
    kwh = list(facts.energy.attempt_kwh[: len(earlier) + 1])
    whole_ns = moment.attempt.wall_ns
    if kwh and kwh[-1] is not None and whole_ns:
        kwh[-1] *= moment.wall_ns / whole_ns
    return billable_usd(
        [*(each.wall_ns / 1e9 for each in earlier), moment.wall_ns / 1e9],
        facts.price,
        devices=facts.declared.devices,
        machines=facts.declared.machines,
        attempt_kwh=kwh,
    )
