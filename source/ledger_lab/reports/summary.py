"""Figures of a run, computed from rows alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ledger_lab.ledger import Run, Status
from ledger_lab.ledger.comparability import yardstick
from ledger_lab.ledger.costs import model as costs
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.ledger.libraries import replays
from ledger_lab.reports.checkpoints import CheckpointSummary, peak_memory_cell
from ledger_lab.reports.columns import Shown, TableCell, figure, summarize
from ledger_lab.reports.facts import HealthSummary, RunFacts, seconds_to_target, summarize_health
from ledger_lab.reports.ranks import NoisePart, RankSummary, summarize_ranks
from ledger_lab.reports.usage import DeviceSummary, HostSummary, RoomSummary, Source, summarize_host, summarize_room
from ledger_lab.units import MISSING, duration, energy, environments, gigabytes, percent, quantity, target_share, usd


def _figure[Value](read: Callable[[RunFacts], Value], shown: Shown | None = None) -> Value:
    """Declare a figure of a run."""
    return figure(read, shown)


def _sum(one_s: float | None, other_s: float | None) -> float | None:
    """Return the sum of two times [s]; ``None`` if one is missing."""
    return None if one_s is None or other_s is None else one_s + other_s


def _run_cell(run: RunSummary) -> TableCell:
    """Return a run's id, its cohort and its seed."""
    seed = f"seed {run.seed}"
    return TableCell(run.run_id, details=(f"{run.cohort}, {seed}" if run.cohort else seed,))


def library_cell(run: RunSummary) -> str:
    """Return the library that trained the policy, and the algorithm if it is not PPO."""
    return f"{run.rl_library} · {run.algorithm}" if replays(run.algorithm) else run.rl_library


def status_cell(run: RunSummary) -> TableCell:
    """Return how a run ended, with its reason."""
    reasons = [
        run.reason,
        run.invalid_reason and f"invalid: {run.invalid_reason}",
        run.changed_code and f"with changed code: {run.changed_code}",
        shortfall(run),
    ]
    details = tuple(reason for reason in reasons if reason)
    if run.status == Status.TARGET_REACHED:
        return TableCell("target reached", details=details, sign="✓", style="good")
    if run.status == Status.COMPLETED:
        return TableCell("short of target", details=details, sign="○", style="short")
    if run.status == Status.LIMIT_REACHED:
        return TableCell("limit reached", details=details, sign="○", style="short")
    if run.status == Status.RUNNING:
        return TableCell("running", details=details, sign="…", style="running")
    return TableCell(run.status.replace("_", " "), details=details, sign="✕", style="bad")


def shortfall(run: RunSummary) -> str | None:
    """Return why a completed run is short of its target, and what to do next; ``None`` for other runs.

    Args:
        run: The run.
    """
    if run.status != Status.COMPLETED or run.target_reached:
        return None
    proofs = [("proof", c.proof_successes, c.proof_episodes, c.path) for c in run.checkpoints]
    checks = [("check", c.heldout_successes, c.heldout_episodes, c.path) for c in run.checkpoints]
    tries = [(won / of, kind, of, path) for kind, won, of, path in (*proofs, *checks) if won is not None and of]
    if not tries:
        return f"no policy was scored, so {target_share(run.target_success)} is not proven → score while training"
    share, kind, episodes, path = max(tries, key=lambda each: (each[1] == "proof", each[0]))
    more = "train longer (--max_iterations)" if share < run.target_success else "score a larger panel"
    return (
        f"the best {kind} is {percent(share)} of {episodes} episodes by {path} → {more}, or continue from this "
        "checkpoint (--checkpoint)"
    )


def _success_cell(run: RunSummary) -> TableCell:
    """Return the held-out success with its interval and its counts."""
    if run.heldout_interval is None:
        return TableCell(MISSING)
    low, high = run.heldout_interval
    counts = f"{run.heldout_successes}/{run.heldout_episodes}"
    return TableCell(percent(run.heldout_success), f"[{100 * low:.1f}, {100 * high:.1f}]", (counts,))


def _noise_cell(run: RunSummary) -> TableCell:
    """Return the gradient noise scale in the last third of a run, with its interval, and the samples of a step."""
    if not run.gradient_noise:
        return TableCell(MISSING)
    last, interval = run.gradient_noise[-1], ""
    if last.interval is not None:
        low, high = last.interval
        interval = f"[{quantity(low)}, {'unlimited' if high is None else quantity(high)}]"
    value = "unlimited" if last.scale is None else quantity(last.scale)
    return TableCell(value, interval, (f"a gradient step averages {quantity(last.step_samples)}",))


def _time_to_target_cell(run: RunSummary) -> str:
    """Return the time to target; for a run that missed the target, its whole time as a lower bound."""
    return duration(run.wall_to_target_s) if run.target_reached else f"> {duration(run.wall_s)}"


def priced(amount: float | None, *, energy_is_unknown: bool) -> str:
    """Return an amount, or why there is none: no price, or unknown energy that is paid on top."""
    if amount is not None:
        return usd(amount)
    return "energy unknown" if energy_is_unknown else "unpriced"


def _cost_cell(run: RunSummary) -> TableCell:
    """Return the cost of a run, beside it that of the run that it began from; and the cost at the declared price."""
    details = []
    if run.declared_usd not in (None, run.billable_usd):
        details.append(f"declared: {usd(run.declared_usd)}")
    if run.billable_usd is None and run.usd_per_hour is not None:
        details.append("set power_w for your own hardware")
    return TableCell(
        priced(run.billable_usd, energy_is_unknown=run.usd_per_hour is not None),
        "" if run.began_from is None else f"+ {priced(run.began_from['usd'], energy_is_unknown=False)} before",
        tuple(details),
    )


def evaluation_afterwards_cell(run: RunSummary) -> TableCell:
    """Return the time of stand-alone evaluations, and its cost."""
    if run.evaluation_afterwards_s is None:
        return TableCell(MISSING)
    cost = priced(run.evaluation_afterwards_usd, energy_is_unknown=run.usd_per_hour is not None)
    return TableCell(duration(run.evaluation_afterwards_s), cost)


def _replay_memory_cell(run: RunSummary) -> str:
    """Return the memory of the replay memory; small ones in MB."""
    held_gb = run.replay_memory_gb
    return gigabytes(held_gb) if held_gb is None or held_gb >= 0.1 else f"{1e3 * held_gb:.3g} MB"


def _energy_cell(run: RunSummary) -> str:
    """Return the energy; ``~`` marks a sum integrated from samples of the power."""
    return ("~" if run.energy_source == "power" else "") + energy(run.energy_kwh)


def _instance_cell(run: RunSummary) -> TableCell:
    """Return the entry of the price book, and its price."""
    return TableCell(run.instance, details=() if run.usd_per_hour is None else (f"{usd(run.usd_per_hour)} per hour",))


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """Every figure of a run, with its denominator in the name or in the docstring below.

    ``None`` means not measured, or without a denominator.
    """

    run_id: str = _figure(
        lambda of: of.declared.run_id, Shown("run", "cohort, training seed", _run_cell, priority=0, align="left")
    )
    """Id of the run; it names the run everywhere."""
    cohort: str | None = _figure(lambda of: of.declared.cohort)
    """Runs that were declared together carry the same name; ``None`` for a run without a cohort."""
    task: str = _figure(lambda of: of.declared.task)
    measured_by: str = _figure(lambda of: yardstick(of.declared))
    """Fields that forbid a comparison if they differ, as JSON: task, panel id, target, and the rules of the verdict, of
    the end and of the clock. Figures of runs that differ in one of them are never pooled."""
    rl_library: str = _figure(
        lambda of: of.declared.rl_library, Shown("library", "", library_cell, priority=6, align="left")
    )
    """The reinforcement learning library that trained the policy. The report names the algorithm if it is not PPO."""
    algorithm: str | None = _figure(lambda of: of.algorithm)
    """``ppo``, ``sac`` or ``td3``; ``None`` (``NULL`` in SQL) if another trainer recorded the run."""
    num_envs: int = _figure(
        lambda of: of.declared.num_envs,
        Shown("envs", "of each process", lambda run: environments(run.num_envs, run.world_size), priority=6),
    )
    """Training environments of each process."""
    world_size: int = _figure(lambda of: of.declared.world_size)
    """Processes of the training."""
    seed: int = _figure(lambda of: of.declared.seed)
    """Seed of the training."""
    configuration: str = _figure(lambda of: of.declared.configuration)
    """Hash of seed and configuration. In a cohort, a run that was ended from outside is repeated by a later run with
    the same hash."""
    training: str = _figure(lambda of: of.declared.training)
    """Hash of seed, configuration, code and machine. In a cohort, runs with the same hash count once."""
    status: str = _figure(
        lambda of: str(of.last.status if of.last else Status.LOST),
        Shown("status", "of the last attempt", status_cell, priority=1, align="left"),
    )
    """How the last attempt ended."""
    reason: str | None = _figure(lambda of: of.last.ended.reason if of.last and of.last.ended else None)
    """Why the last attempt ended so."""
    device: str = _figure(lambda of: of.declared.device)
    physics: str = _figure(lambda of: of.declared.physics)
    timing: str = _figure(lambda of: of.declared.timing)
    instance: str = _figure(
        lambda of: of.price.instance, Shown("instance", "and its price", _instance_cell, priority=11, align="left")
    )
    """Entry of the price book that the run is priced by."""
    usd_per_hour: float | None = _figure(lambda of: of.price.usd_per_hour)
    """Price of the instance: the requested price, else the declared price [USD/h]."""
    declared_price: dict[str, Any] = _figure(lambda of: of.declared_price.to_dict())
    """The declared price entry, even if the report was asked for another price."""
    declared_usd: float | None = _figure(lambda of: of.cost_usd(of.declared_price))
    """What the run cost at the declared price [USD]."""
    env_steps: int = _figure(lambda of: of.env_steps)
    """Environment steps that the learner trained on, over all processes."""
    train_s: float | None = _figure(lambda of: of.train_s)
    """Seconds in the training phases: the training loop without the scoring, which is in ``evaluate_s``; ``None``
    before an iteration."""
    loop_s: float | None = _figure(lambda of: of.loop_s)
    """Wall-clock seconds of the training loop: the training phases and the scoring; ``None`` before an iteration."""
    evaluate_s: float | None = _figure(lambda of: of.evaluate_s)
    """Seconds in the phase ``evaluate``; ``None`` if the run never evaluated."""
    wall_s: float = _figure(lambda of: of.wall_s)
    """Seconds of all attempts, from the start of their Python to their ends."""
    env_steps_per_s: float | None = _figure(
        lambda of: costs.ratio(of.env_steps, of.train_s),
        Shown("steps/s", "÷ s of training phases", lambda run: quantity(run.env_steps_per_s), priority=5),
    )
    """Environment steps of the learner, over all processes, ÷ ``train_s``. Neither steps of held-out episodes nor the
    time that they take count. So this is about the speed of a training without scoring."""
    env_steps_per_wall_s: float | None = _figure(
        lambda of: costs.ratio(of.env_steps, of.loop_s),
        Shown("with scoring", "÷ s of the training loop", lambda run: quantity(run.env_steps_per_wall_s), priority=5),
    )
    """The same steps ÷ ``loop_s``: the time of held-out episodes counts, their steps do not. Start-up and compilation
    are not part of the training loop."""
    updates_per_min: float | None = _figure(lambda of: costs.ratio(of.updates, of.train_s, 60.0))
    """Iterations of collecting and learning ÷ ``train_s``, per minute."""
    updates_per_wall_min: float | None = _figure(lambda of: costs.ratio(of.updates, of.loop_s, 60.0))
    """The same iterations ÷ ``loop_s``, per minute."""
    gradient_steps_per_env_step: float = _figure(
        lambda of: of.declared.epochs * of.declared.minibatches / of.declared.env_steps_per_iteration
    )
    """Update-to-data ratio: gradient steps of an iteration ÷ its environment steps, over all processes."""
    wall_to_target_s: float | None = _figure(
        lambda of: seconds_to_target(of.run, of.judged),
        Shown("to target", "wall-clock until proven", _time_to_target_cell, priority=3),
    )
    """Wall-clock time until a policy was proven to reach the target [s]: start-up, compilation, training and scoring
    of all attempts. A run that missed the target in its 2:00 minutes is shown as “> 2:00”; it always counts."""
    evaluation_share: float | None = _figure(lambda of: costs.evaluation_share(of.evaluate_s, of.wall_s))
    """Seconds in the phase ``evaluate`` ÷ wall-clock seconds of all attempts."""
    peak_gpu_memory_gb: float | None = _figure(
        lambda of: of.peak_gb("peak_gpu_memory_bytes"),
        Shown("peak memory", "of the whole run", peak_memory_cell, priority=7),
    )
    """Peak memory on the accelerator of the process with the largest peak [GB]. The report shows the host's peak
    memory where there is none."""
    peak_host_memory_gb: float | None = _figure(lambda of: of.peak_gb("peak_host_memory_bytes"))
    """Peak memory on the host of the process with the largest peak [GB]."""
    replay_memory_gb: float | None = _figure(
        lambda of: of.replay_gb,
        Shown("replay memory", "on the device or the host", _replay_memory_cell, priority=14, if_measured=True),
    )
    """Memory that the replay memory of each process takes [GB]. It is a part of the peak memory of the device, or of
    the host without a GPU or with ``replay_on_host``; networks and simulation are in the rest. ``None`` without a
    replay memory."""
    energy_kwh: float | None = _figure(
        lambda of: of.energy.kwh,
        Shown("energy", "of the accelerators", _energy_cell, priority=9, if_measured=True),
    )
    """Energy of the run's accelerators in all attempts [kWh], by their own counters; “~” marks a sum integrated from
    samples of their power. There is no figure if more than a tenth of the time was not measured."""
    energy_source: Source | None = _figure(lambda of: of.energy.source)
    """``counter``: their own counters; ``power``: integrated from samples of their power."""
    energy_undefined_reason: str | None = _figure(lambda of: of.energy.undefined_reason)
    """Why :attr:`energy_kwh` is ``None``; ``None`` if there is a figure."""
    mean_gpu_utilization: float | None = _figure(
        lambda of: of.energy.mean_utilization,
        Shown(
            "GPU busy",
            "mean over the run",
            lambda run: percent(run.mean_gpu_utilization, 0),
            priority=10,
            if_measured=True,
        ),
    )
    """Share of the time in which a kernel ran; the mean over all samples of all accelerators, start-up included."""
    devices: list[DeviceSummary] = _figure(lambda of: of.energy.devices)
    host: HostSummary | None = _figure(lambda of: summarize_host(of.run))
    room: RoomSummary | None = _figure(lambda of: summarize_room(of.run.attempts))
    ranks: list[RankSummary] = _figure(lambda of: summarize_ranks(of.run))
    """Its processes, by rank; none for a run of one process."""
    gradient_noise: list[NoisePart] = _figure(lambda of: of.gradient_noise)
    """Noise of its gradients in each third of its training; none for a run of one process."""
    gradient_noise_scale: float | None = _figure(
        lambda of: of.gradient_noise[-1].scale if of.gradient_noise else None,
        Shown("noise scale", "samples, last third", _noise_cell, priority=15, if_measured=True),
    )
    """Gradient noise scale in the last third of the training [samples]: how many samples a gradient takes that has as
    much noise as signal. ``None`` for a run of one process, or if the noise hides the gradient."""
    heldout_successes: int | None = _figure(lambda of: of.outcomes.successes if of.outcomes else None)
    """Successes of the proof that proved a policy; without one, of the last checkpoint checked."""
    heldout_episodes: int | None = _figure(lambda of: of.outcomes.episodes if of.outcomes else None)
    heldout_success: float | None = _figure(
        lambda of: of.success[0] if of.success else None,
        Shown("success (95 %)", "of held-out episodes", _success_cell, priority=2, align="left"),
    )
    """Share of held-out episodes that succeeded, each seed and cell counted once, with its 95 % interval in brackets:
    of all panels of the proof that proved a policy; without one, of the last checkpoint that was checked. The
    interval of a proven policy holds provided that it reaches its target; the error budget is the chance that it does
    not."""
    heldout_interval: tuple[float, float] | None = _figure(lambda of: of.success[1] if of.success else None)
    """95 % interval of the share. That of a proven policy allows for the selection by the pass, whichever proof
    of the run it was, provided that the policy reaches its target. That of a check is Wilson's."""
    changed_code: str | None = _figure(lambda of: of.changed_code)
    """Modules that had changed since the declaration when a checkpoint was scored or began the run;
    ``None`` if none had, or if it is unknown."""
    invalid_reason: str | None = _figure(lambda of: of.invalid_reason)
    """Why scores of the run are invalid and left out; ``None`` if all are valid."""
    target_success: float = _figure(lambda of: of.declared.target_success)
    error_budget: float = _figure(lambda of: of.declared.error_budget)
    """Highest probability that the run proves a policy below its target. A run that began with a checkpoint has what
    the run of that checkpoint left."""
    target_reached: bool = _figure(lambda of: of.proof is not None)
    unfinished: bool = _figure(lambda of: not of.run.has_finished())
    """Whether it may have to be made again: it has no attempt, or was ended from outside before its target was proven
    and its time limit was used up."""
    panel: str = _figure(lambda of: of.declared.panel)
    panel_id: str = _figure(lambda of: of.declared.panel_id)
    began_from: dict[str, Any] | None = _figure(lambda of: of.declared.began_from)
    """The checkpoint that the run's networks began from, and its cost, which no other figure includes."""
    billable_usd: float | None = _figure(
        lambda of: of.cost_usd(of.price), Shown("cost", "of the whole run", _cost_cell, priority=4)
    )
    """All seconds of all attempts, failed ones included, rounded as the price entry says, × the price of the instances,
    plus energy on the user's own hardware [USD]. A run without a price is “unpriced”, never free."""
    queue_s: float | None = _figure(
        lambda of: of.queue_s,
        Shown("queue", "not in the cost and times", lambda run: duration(run.queue_s), priority=14, if_measured=True),
    )
    """Seconds that the run's jobs waited in the queue of a scheduler, before all attempts, by the scheduler's clock;
    ``None`` outside jobs, or if it is unknown for one attempt. No other time and no cost includes them."""
    evaluation_afterwards_s: float | None = _figure(
        lambda of: of.evaluation_afterwards_s,
        Shown(
            "evaluation afterwards",
            "not in the cost and times",
            evaluation_afterwards_cell,
            priority=14,
            if_measured=True,
        ),
    )
    """Seconds of ``evaluate.py`` on the run's checkpoints; ``None`` if it never scored them. No other time and no
    steps/s include them. If an evaluation scored checkpoints of several runs, each run has a share of its time."""
    evaluation_afterwards_usd: float | None = _figure(lambda of: of.evaluation_afterwards_usd)
    """Cost of that time, as if one accelerator, or one machine without accelerators, of the run's instance was used
    [USD]. It is not part of ``billable_usd``."""
    energy_usd: float | None = _figure(lambda of: of.energy_cost.usd if of.energy_cost else None)
    """The energy's part of the cost [USD]; ``None`` if the price includes energy."""
    energy_basis: str | None = _figure(lambda of: of.energy_cost.basis if of.energy_cost else None)
    """``measured``, ``nominal`` (power times time), or ``mixed`` if only some attempts were measured."""
    usd_per_billion_env_steps: float | None = _figure(lambda of: costs.ratio(of.cost_usd(of.price), of.env_steps, 1e9))
    phases: dict[str, float] = _figure(
        lambda of: {phase: nanoseconds / 1e9 for phase, nanoseconds in of.phase_ns.items()}
    )
    """Seconds per phase; they sum to ``wall_s``."""
    fps_step: float | None = _figure(lambda of: costs.ratio(of.env_steps, of.step_s))
    """Environment steps per second of ``simulate + manage``, without the held-out slots' share of this time."""
    fps_step_inference: float | None = _figure(lambda of: costs.ratio(of.env_steps, _sum(of.step_s, of.infer_s)))
    """Environment steps per second of ``simulate + manage + infer``, without the held-out slots' share."""
    seconds_per_update: float | None = _figure(lambda of: None if of.update_s is None else of.update_s / of.updates)
    """Seconds of ``returns + learn + synchronize`` per iteration."""
    checkpoints: list[CheckpointSummary] = _figure(lambda of: of.checkpoints)
    health: list[HealthSummary] = _figure(lambda of: summarize_health(of.run))
    """Health events of the training, one entry per kind of event."""

    @property
    def proven(self) -> CheckpointSummary | None:
        """The checkpoint that was proven to reach the target."""
        return next((c for c in self.checkpoints if c.proven), None)

    @property
    def best(self) -> CheckpointSummary | None:
        """The proven checkpoint, else the first checkpoint with the best held-out score."""
        return self.proven or max(
            (c for c in self.checkpoints if c.heldout_successes is not None),
            key=lambda c: c.heldout_successes or 0,
            default=None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return asdict(self)


def summarize_run(run: Run, price: Price | None = None) -> RunSummary:
    """Compute every figure of a run.

    Args:
        run: The run.
        price: Price that replaces the declared price.
    """
    return summarize(RunSummary, RunFacts(run, price))
