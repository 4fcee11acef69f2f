"""Advice that would make a run shorter, each with a gain computed from rows of the ledger."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ledger_lab.ledger import Run, Status
from ledger_lab.meters import TRAINING_PHASES, Phase
from ledger_lab.panels.slot_count import slots_in_all
from ledger_lab.reports.scaling import Scaling, fit_scaling
from ledger_lab.reports.workload import NO_GRAPH, LoopTelemetry, Workload

LEAST_GAIN = 0.01
"""Smallest gain that is advised, as a share of wall-clock time."""

MEMORY_LIMIT = 0.95
"""Share of memory above which it counts as full."""

_LEAST_ITERATIONS = 5
"""Shortest run whose times per call are used; shorter runs are dominated by their first steps."""

_LARGEST_RESIDUAL = 0.25
"""Largest relative error of a fit that is still used."""

_COLD = 1.5
"""A start-up that takes this many times as long as in other runs counts as a cold start, such as an empty cache."""

_IDLE, _BUSY = 0.5, 0.9
"""Utilization below which a device counts as waiting, and share of a core above which a thread counts as the cause."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One change, and the time it would save. Gains of several pieces of advice do not add up."""

    action: str
    gain: float
    """Share of the run's wall-clock time that the change saves for the same number of environment steps; in (0, 1)."""
    bound: Literal["estimate", "at most"]
    """Whether the gain is an expectation or an upper bound."""
    basis: str
    """The measured figures that the gain is computed from, and how."""
    caveat: str | None
    """Side effects of the change."""


def advise(work: Workload, peers: Sequence[Workload], run: Run, usage: LoopTelemetry) -> list[Advice]:
    """Return all advice whose gain follows from measured figures, the largest gain first.

    Args:
        work: The run's work.
        peers: Work of the ledger's runs in the same surroundings; may include the run itself.
        run: The run.
        usage: Its telemetry.
    """
    if work.wall_s <= 0:
        return []
    others = [peer for peer in peers if peer.run_id != work.run_id and _measures(peer)]
    found: list[Advice | None] = [_warmer_start(work, peers), _one_run(work, run)]
    if _measures(work):
        found += [
            _more_environments(work, others, usage),
            _larger_minibatches(work, others),
            _fewer_epochs(work),
            _less_frequent_scoring(work, run),
            _fewer_checkpoints(work, run),
            _feeding_the_device(work, usage),
            *_twins(work, others),
        ]
    return sorted((a for a in found if a is not None and a.gain >= LEAST_GAIN), key=lambda a: a.gain, reverse=True)


def _measures(work: Workload) -> bool:
    """Tell whether a run was long and undisturbed enough for its times per call to be meaningful."""
    return work.iterations >= _LEAST_ITERATIONS and work.attempts == 1


def _fit(
    runs: Sequence[Workload], size: Callable[[Workload], int], time: Callable[[Workload], float | None]
) -> Scaling | None:
    """Fit a time over runs; ``None`` with too few sizes, or if the times are not near a line."""
    times = [(size(each), time(each)) for each in runs]
    fit = fit_scaling([(n, t) for n, t in times if t is not None])
    return fit if fit is not None and fit.residual <= _LARGEST_RESIDUAL else None


def _more_environments(work: Workload, others: Sequence[Workload], usage: LoopTelemetry) -> Advice | None:
    """Advise twice as many environments if one step of them costs less than twice as much."""
    alike = [
        other
        for other in others
        if (other.agent, other.graphs, other.timing, other.held_out_slots > 0)
        == (work.agent, work.graphs, work.timing, work.held_out_slots > 0)
    ]
    runs = [work, *alike]
    step = _fit(runs, lambda each: each.slots, lambda each: each.step_s)
    step_s = work.phase_s(Phase.SIMULATE, Phase.MANAGE)
    if step is None or step_s is None:
        return None
    twice = 2 * work.num_envs
    slots = slots_in_all(twice, work.held_out_slots)
    if not _fits(runs, slots, work, usage):
        return None
    # Training is charged for its own slots only, so its cost is the step's cost per slot.
    saved_s = step_s * step.saving(work.slots, slots)
    infer, infer_s = _fit(runs, lambda each: each.num_envs, lambda each: each.infer_s), work.phase_s(Phase.INFER)
    if infer is not None and infer_s is not None:
        saved_s += infer_s * infer.saving(work.num_envs, twice)
    beyond = ", beyond what was measured" if slots > step.sizes[-1] else ""
    return Advice(
        action=f"train in {twice} environments instead of {work.num_envs}",
        gain=saved_s / work.wall_s,
        bound="estimate",
        basis=(
            f"step time {100 * step.growth(work.slots, slots):+.0f} % from {work.slots} to {slots} slots{beyond}: "
            f"{1e3 * step.fixed:.2f} ms + {1e6 * step.per_item:.2f} µs per slot, fitted to {step.runs} runs "
            f"of {', '.join(map(str, step.sizes))} slots"
        ),
        caveat="may take more steps to learn",
    )


def _fits(runs: Sequence[Workload], slots: int, work: Workload, usage: LoopTelemetry) -> bool:
    """Tell whether this many slots are expected to fit into memory; ``True`` if memory was not measured."""
    if usage.memory is not None and usage.memory >= MEMORY_LIMIT:
        return False
    memory = _fit(runs, lambda each: each.slots, lambda each: each.peak_memory_gb)
    return memory is None or work.memory_gb is None or memory.at(slots) < MEMORY_LIMIT * work.memory_gb


def _larger_minibatches(work: Workload, others: Sequence[Workload]) -> Advice | None:
    """Advise half as many minibatches of twice the size if one of these costs less than twice as much."""
    learn_s = work.phase_s(Phase.LEARN)
    # Another minibatch size changes the configuration's hash; the same code and overrides give the same network.
    alike = [other for other in others if (other.timing, other.code) == (work.timing, work.code)]
    runs = [work, *alike]
    fit = _fit(runs, lambda each: each.minibatch_size, lambda each: each.minibatch_s)
    if fit is None or learn_s is None or work.minibatches % 2:
        return None
    size, twice = work.minibatch_size, 2 * work.minibatch_size
    beyond = ", beyond what was measured" if twice > fit.sizes[-1] else ""
    return Advice(
        action=f"update with {work.minibatches // 2} minibatches instead of {work.minibatches}",
        gain=learn_s * fit.saving(size, twice) / work.wall_s,
        bound="estimate",
        basis=(
            f"time of a minibatch {100 * fit.growth(size, twice):+.0f} % from {size} to {twice} steps{beyond}: "
            f"{1e3 * fit.fixed:.2f} ms + {1e6 * fit.per_item:.3f} µs per step, fitted to {fit.runs} runs "
            f"of {', '.join(map(str, fit.sizes))} steps"
        ),
        caveat="may take more steps to learn",
    )


def _fewer_epochs(work: Workload) -> Advice | None:
    """Advise one epoch less, only if the learner takes the largest share of the loop."""
    learn_s = work.phase_s(Phase.LEARN)
    if learn_s is None or work.epochs < 2:
        return None
    if any(work.phases.get(phase, 0.0) > learn_s for phase in TRAINING_PHASES):
        return None
    return Advice(
        action=f"update for {work.epochs - 1} epochs instead of {work.epochs}",
        gain=learn_s / work.epochs / work.wall_s,
        bound="estimate",
        basis=f"learn took {learn_s:.1f} s in {work.iterations} × {work.epochs} epochs",
        caveat="may take more steps to learn",
    )


def _less_frequent_scoring(work: Workload, run: Run) -> Advice | None:
    """Advise judging half as many policies; the gain is the time of judging outside the environment steps."""
    windows = [window for _, window in run.windows if window.iteration]
    evaluate_ns = sum(window.phase_ns.get(Phase.EVALUATE, 0) for window in windows)
    step_s = work.phase_s(Phase.SIMULATE, Phase.MANAGE)
    screened = {row.checkpoint for row in run.results if row.purpose == "screening"}
    iterations = sorted(saved.iteration for saved in run.checkpoints if saved.path in screened)
    if step_s is None or len(iterations) < 3 or not work.held_out_slots:
        return None
    slots_s = step_s * (work.slots - work.num_envs) / work.num_envs
    judging_s = evaluate_ns / 1e9 - slots_s
    every = round(2 * (iterations[-1] - iterations[0]) / (len(iterations) - 1))
    return Advice(
        action=f"judge half as often: --eval_every {every}",
        gain=judging_s / 2 / work.wall_s,
        bound="estimate",
        basis=(
            f"of evaluate in the training loop, {slots_s:.1f} s are the held-out slots' part of the steps, at any "
            f"cadence; judging {len(iterations)} policies took {judging_s:.1f} s"
        ),
        caveat="a policy that reaches the target is noticed later",
    )


def _fewer_checkpoints(work: Workload, run: Run) -> Advice | None:
    """Advise saving half as many of the checkpoints that were never judged."""
    checkpoint_s = work.phase_s(Phase.CHECKPOINT)
    judged = {row.checkpoint for row in run.results if row.purpose != "evaluation"}
    unjudged = [saved.iteration for saved in run.checkpoints if saved.path not in judged]
    if checkpoint_s is None or len(unjudged) < 2:
        return None
    each_s = checkpoint_s / len(run.checkpoints)
    return Advice(
        action="save half as often: twice the agent.save_interval",
        gain=len(unjudged) / 2 * each_s / work.wall_s,
        bound="estimate",
        basis=f"{len(unjudged)} checkpoints that were never judged took {1e3 * each_s:.0f} ms each",
        caveat="an interrupted run loses up to twice as many iterations",
    )


def _warmer_start(work: Workload, peers: Sequence[Workload]) -> Advice | None:
    """Advise warm caches, if other runs of the same size started faster."""
    own_s = work.phase_s(Phase.STARTUP, Phase.COMPILE)
    times_s = [
        time_s
        for peer in peers
        if peer.run_id != work.run_id and (peer.slots, peer.attempts) == (work.slots, 1) and peer.iterations
        if (time_s := peer.phase_s(Phase.STARTUP, Phase.COMPILE)) is not None
    ]
    if own_s is None or work.attempts != 1 or not times_s:
        return None
    median_s = statistics.median(times_s)
    if own_s < _COLD * median_s:
        return None
    return Advice(
        action="start with warm caches: keep the kernel cache (~/.cache/warp) and the packages on a local disk",
        gain=(own_s - median_s) / work.wall_s,
        bound="estimate",
        basis=f"start-up and compilation took {own_s:.1f} s here and {median_s:.1f} s in the median of {len(times_s)} "
        "other runs of the same size",
        caveat=None,
    )


def _one_run(work: Workload, run: Run) -> Advice | None:
    """Advise resuming a run that fell short instead of starting again; the gain is the start-up time."""
    start_s = work.phase_s(Phase.STARTUP, Phase.COMPILE)
    fell_short = work.held_out_slots > 0 and bool(run.attempts) and run.attempts[-1].status is Status.COMPLETED
    if start_s is None or not fell_short:
        return None
    return Advice(
        action=f"train on in one run: --max_iterations {2 * run.declared.max_iterations}",
        gain=start_s / 2 / work.wall_s,
        bound="estimate",
        basis=f"start-up and compilation took {start_s:.1f} s, which a run of twice the length pays once",
        caveat=None,
    )


def _feeding_the_device(work: Workload, usage: LoopTelemetry) -> Advice | None:
    """Advise giving a device more work at once if it waits for one host thread."""
    if not is_host_bound(usage) or usage.utilization is None:
        return None
    loop_s = work.phase_s(*TRAINING_PHASES)
    if loop_s is None:
        return None
    return Advice(
        action="let the device do more per launch: more environments, fewer and larger minibatches, CUDA graphs",
        gain=loop_s * (1 - usage.utilization) / work.wall_s,
        bound="at most",
        basis=f"no kernel ran in {1 - usage.utilization:.0%} of the {loop_s:.1f} s of the training loop",
        caveat=None,
    )


def is_host_bound(usage: LoopTelemetry) -> bool:
    """Tell whether a device mostly waits while one thread of the host is fully busy."""
    return (
        usage.utilization is not None
        and usage.busiest_thread is not None
        and usage.utilization < _IDLE
        and usage.busiest_thread >= _BUSY
    )


def _twins(work: Workload, others: Sequence[Workload]) -> list[Advice | None]:
    """Advise settings of faster runs that differ from this run in one setting only."""
    changes: list[tuple[dict[str, object], str, str | None]] = [
        ({"graphs": True}, f"let the physics engine record its steps: drop {NO_GRAPH}False", None),
        (
            {"timing": "host"},
            "measure without waiting for the device: --timing host",
            "phases of a device are attributed less sharply",
        ),
        (
            {"held_out_slots": 0},
            "score checkpoints after the training: --no_eval, then evaluate.py",
            "scoring takes its own time then, and no confirmed target ends the training",
        ),
    ]
    found = []
    for change, action, caveat in changes:
        changed = replace(work, **change)  # type: ignore[arg-type]
        if changed != work:
            found.append(_twin(work, [other for other in others if _same(other, changed)], action, caveat))
    return found


def _same(one: Workload, other: Workload) -> bool:
    """Tell whether two runs did the same work."""
    fields = ("agent", "graphs", "timing", "num_envs", "held_out_slots", "horizon", "epochs", "minibatches")
    return all(getattr(one, name) == getattr(other, name) for name in fields)


def _twin(work: Workload, twins: Sequence[Workload], action: str, caveat: str | None) -> Advice | None:
    """Compare a run's step time with the median of runs that differ in a single setting."""
    times_s = [twin.step_s for twin in twins if twin.step_s is not None]
    if work.step_s is None or not times_s:
        return None
    median_s = statistics.median(times_s)
    return Advice(
        action=action,
        gain=(work.step_s - median_s) * work.step_calls / work.wall_s,
        bound="estimate",
        basis=f"a step took {1e3 * work.step_s:.2f} ms here and {1e3 * median_s:.2f} ms in {len(times_s)} other "
        f"run{'s' if len(times_s) != 1 else ''} that did",
        caveat=caveat,
    )
