"""Advice that would make a run shorter, each with a gain computed from rows of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ledger_lab.ledger import Run
from ledger_lab.ledger.libraries import dialect_of, replays
from ledger_lab.ledger.meters import TRAINING_PHASES, Phase
from ledger_lab.panels.slot_count import slots_in_all
from ledger_lab.reports.peers import Peers, measures, step_group, update_group
from ledger_lab.reports.workload import NO_GRAPH, LoopTelemetry, Workload

_LEAST_GAIN = 0.1
"""Smallest gain that is advised, as a share of wall-clock time."""

MEMORY_LIMIT = 0.95
"""Share of memory above which it counts as full."""

_COLD = 1.5
"""A start-up that takes this many times as long as in other runs counts as a cold start, for example with an empty
cache."""

_MORE_STEPS = "1.2 to 4.2"
"""Environment steps to the target ÷ those with twice the gradient steps, from 0.5 to 8 gradient steps after each step
of all environments: ``records/update-to-data-cpu.json.gz``, medians of five seeds."""

_IDLE, _BUSY = 0.5, 0.9
"""Utilization below which a device counts as waiting, and share of a core above which a thread counts as the cause."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One change, and the time it would save. Gains of several pieces of advice do not add up."""

    action: str
    gain: float
    """Share of the run's wall-clock time that the change saves for the same number of environment steps; in (0, 1)."""
    bound: Literal["estimate", "at most"] = "estimate"
    """Whether the gain is an expectation or an upper bound."""
    basis: str
    """The measured figures that the gain is computed from, and how."""
    caveat: str | None = None
    """Side effects of the change."""


def advise(work: Workload, peers: Peers, run: Run, usage: LoopTelemetry) -> list[Advice]:
    """Return all advice whose gain follows from measured figures, the largest gain first.

    Args:
        work: The run's work.
        peers: The ledger's runs in the same surroundings, the run itself included.
        run: The run.
        usage: Its telemetry.
    """
    if work.wall_s <= 0:
        return []
    found: list[Advice | None] = [_warmer_start(work, peers)]
    if measures(work):
        found += [
            _more_environments(work, peers, run, usage),
            _larger_minibatches(work, peers),
            _fewer_epochs(work),
            _fewer_gradient_steps(work, run),
            _replay_on_the_device(work, run, usage),
            _less_frequent_scoring(work, run),
            _feeding_the_device(work, usage),
            *_twins(work, peers),
        ]
    return sorted((a for a in found if a is not None and a.gain >= _LEAST_GAIN), key=lambda a: a.gain, reverse=True)


def _setting(work: Workload, run: Run, field: str) -> str | None:
    """Return the override of a run's library that sets a field of a recipe; ``None`` if the library has none."""
    if work.algorithm is None:
        return None
    return dialect_of(run.declared.rl_library, work.algorithm).overrides.get(field)


def _more_environments(work: Workload, peers: Peers, run: Run, usage: LoopTelemetry) -> Advice | None:
    """Advise twice as many environments if one step of them costs less than twice as much."""
    step = peers.fit(step_group(work), "slots", "step_s")
    step_s = work.phase_s(Phase.SIMULATE, Phase.MANAGE)
    if step is None or step_s is None:
        return None
    twice = 2 * work.num_envs
    slots = slots_in_all(twice, work.held_out_slots)
    if not _fits(peers, slots, work, usage):
        return None
    # Training is charged for its own slots only, so its cost is the step's cost per slot.
    saved_s = step_s * step.saving(work.slots, slots)
    infer, infer_s = peers.fit(step_group(work), "num_envs", "infer_s"), work.phase_s(Phase.INFER)
    if infer is not None and infer_s is not None:
        saved_s += infer_s * infer.saving(work.num_envs, twice)
    beyond = ", beyond what was measured" if slots > step.sizes[-1] else ""
    caveat = "may take more steps to learn"
    if replays(work.algorithm):
        updates, steps = (_setting(work, run, field) for field in ("updates_per_step", "replay_steps"))
        caveat += (
            f"; halves the gradient steps per environment step unless {updates} is doubled, and doubles the replay "
            f"memory unless {steps} is halved"
        )
    return Advice(
        action=f"train in {twice} environments instead of {work.num_envs}",
        gain=saved_s / work.wall_s,
        basis=(
            f"step time {100 * step.growth(work.slots, slots):+.0f} % from {work.slots} to {slots} slots{beyond}: "
            f"{1e3 * step.fixed:.2f} ms + {1e6 * step.per_item:.2f} µs per slot, fitted to {step.runs} runs "
            f"of {', '.join(map(str, step.sizes))} slots"
        ),
        caveat=caveat,
    )


def _fits(peers: Peers, slots: int, work: Workload, usage: LoopTelemetry) -> bool:
    """Tell whether this many slots are expected to fit into memory; ``True`` if memory was not measured."""
    if usage.memory is not None and usage.memory >= MEMORY_LIMIT:
        return False
    memory = peers.fit(step_group(work), "slots", "peak_memory_gb")
    return memory is None or work.memory_gb is None or memory.at(slots) < MEMORY_LIMIT * work.memory_gb


def _larger_minibatches(work: Workload, peers: Peers) -> Advice | None:
    """Advise half as many minibatches of twice the size if one of these costs less than twice as much."""
    learn_s = work.phase_s(Phase.LEARN)
    fit = peers.fit(update_group(work), "minibatch_size", "minibatch_s")
    if fit is None or learn_s is None or work.minibatches % 2 or replays(work.algorithm):
        return None
    size, twice = work.minibatch_size, 2 * work.minibatch_size
    beyond = ", beyond what was measured" if twice > fit.sizes[-1] else ""
    return Advice(
        action=f"update with {work.minibatches // 2} minibatches instead of {work.minibatches}",
        gain=learn_s * fit.saving(size, twice) / work.wall_s,
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
        basis=f"learn took {learn_s:.1f} s in {work.iterations} × {work.epochs} epochs",
        caveat="may take more steps to learn",
    )


def _fewer_gradient_steps(work: Workload, run: Run) -> Advice | None:
    """Advise half as many gradient steps on a replay memory, only if the learner takes the largest share of the loop.

    If gradient steps run beside the simulation, nothing is known about their time: ``learn`` is only the wait for them.
    Such a run has no phase in which batches are drawn.
    """
    sample_s, learn_s = work.phase_s(Phase.REPLAY_SAMPLE), work.phase_s(Phase.LEARN)
    change = _fewer_updates(work, run)
    if sample_s is None or learn_s is None or change is None:
        return None
    learner_s, others = sample_s + learn_s, TRAINING_PHASES - {Phase.REPLAY_SAMPLE, Phase.LEARN}
    if any(work.phases.get(phase, 0.0) > learner_s for phase in others):
        return None
    return Advice(
        action=f"make half as many gradient steps: {change}",
        gain=learner_s / 2 / work.wall_s,
        basis=(
            f"learn and replay_sample took {learner_s:.1f} s in {work.iterations} × {work.minibatches} gradient steps"
        ),
        caveat=f"takes more environment steps to learn: {_MORE_STEPS} times as many with SAC on the cart-pole",
    )


def _fewer_updates(work: Workload, run: Run) -> str | None:
    """Return how to halve the gradient steps on a replay memory; ``None`` without one, or if it is not possible."""
    if not replays(work.algorithm):
        return None
    updates, every = (_setting(work, run, field) for field in ("updates_per_step", "update_every"))
    if every is not None:
        return f"lower {updates}, or raise {every}"
    return None if work.minibatches % (2 * work.horizon) else f"lower {updates}"


def _replay_on_the_device(work: Workload, run: Run, usage: LoopTelemetry) -> Advice | None:
    """Advise to hold a replay memory on the GPU instead of the host, if the GPU had room for it."""
    setting, replay_s = _setting(work, run, "replay_on_host"), work.phase_s(Phase.REPLAY_WRITE, Phase.REPLAY_SAMPLE)
    asked = next((o for o in run.declared.overrides if o.lower() == f"{setting}=true"), None)
    if run.declared.device == "cpu" or asked is None or replay_s is None:
        return None
    if work.replay_gb is None or work.memory_gb is None:
        return None
    used_gb = work.peak_memory_gb if usage.memory is None else usage.memory * work.memory_gb
    if used_gb is None or used_gb + work.replay_gb >= MEMORY_LIMIT * work.memory_gb:
        return None
    return Advice(
        action=f"hold the replay memory on the GPU: drop {asked}",
        gain=replay_s / work.wall_s,
        bound="at most",
        basis=(
            f"replay_write and replay_sample took {replay_s:.1f} s; the GPU used {used_gb:.1f} of {work.memory_gb:.1f} "
            f"GB, and the replay memory takes {work.replay_gb:.1f} GB"
        ),
    )


def _less_frequent_scoring(work: Workload, run: Run) -> Advice | None:
    """Advise scoring half as many policies; the gain is the time of scoring outside the environment steps."""
    step_s = work.phase_s(Phase.SIMULATE, Phase.MANAGE)
    screened = {row.checkpoint for row in run.results if row.purpose == "screening"}
    iterations = sorted(saved.iteration for saved in run.checkpoints if saved.path in screened)
    if step_s is None or len(iterations) < 3 or not work.held_out_slots:
        return None
    windows = [window for _, window in run.windows if window.iteration]
    evaluate_ns = sum(window.phase_ns.get(Phase.EVALUATE, 0) for window in windows)
    slots_s = step_s * (work.slots - work.num_envs) / work.num_envs
    scoring_s = evaluate_ns / 1e9 - slots_s
    every = round(2 * (iterations[-1] - iterations[0]) / (len(iterations) - 1))
    return Advice(
        action=f"score half as often: --eval_every {every}",
        gain=scoring_s / 2 / work.wall_s,
        basis=(
            f"of evaluate in the training loop, {slots_s:.1f} s are the held-out slots' part of the steps, at any "
            f"cadence; scoring {len(iterations)} policies took {scoring_s:.1f} s"
        ),
        caveat="a policy that reaches the target is noticed later",
    )


def _warmer_start(work: Workload, peers: Peers) -> Advice | None:
    """Advise warm caches, if other runs of the same size started faster."""
    own_s = work.phase_s(Phase.STARTUP, Phase.COMPILE)
    if own_s is None or work.attempts != 1 or (others := peers.other_starts_s(work)) is None:
        return None
    median_s, count = others
    if own_s < _COLD * median_s:
        return None
    return Advice(
        action="start with warm caches: keep the kernel cache (~/.cache/warp) and the packages on a local disk",
        gain=(own_s - median_s) / work.wall_s,
        basis=f"start-up and compilation took {own_s:.1f} s here and {median_s:.1f} s in the median of {count} "
        "other runs of the same size",
    )


def _feeding_the_device(work: Workload, usage: LoopTelemetry) -> Advice | None:
    """Advise giving a device more work at once if it waits for one host thread."""
    if not is_host_bound(usage) or usage.utilization is None:
        return None
    loop_s = work.phase_s(*TRAINING_PHASES)
    if loop_s is None:
        return None
    larger = "larger batches of the replay memory" if replays(work.algorithm) else "fewer and larger minibatches"
    return Advice(
        action=f"let the device do more per launch: more environments, {larger}, CUDA graphs",
        gain=loop_s * (1 - usage.utilization) / work.wall_s,
        bound="at most",
        basis=f"no kernel ran in {1 - usage.utilization:.0%} of the {loop_s:.1f} s of the training loop",
    )


def is_host_bound(usage: LoopTelemetry) -> bool:
    """Tell whether a device mostly waits while one thread of the host is fully busy."""
    return (
        usage.utilization is not None
        and usage.busiest_thread is not None
        and usage.utilization < _IDLE
        and usage.busiest_thread >= _BUSY
    )


def _twins(work: Workload, peers: Peers) -> list[Advice | None]:
    """Advise settings of faster runs that differ from this run in one setting only."""
    changes: list[tuple[dict[str, object], str, str | None]] = [
        ({"graphs": True}, f"let the physics engine record its steps: drop {NO_GRAPH}False", None),
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
            found.append(_twin(work, peers.steps_s(changed), action, caveat))
    return found


def _twin(work: Workload, times_s: Sequence[float], action: str, caveat: str | None) -> Advice | None:
    """Compare a run's step time with the median of the step times of runs that differ in a single setting."""
    if work.step_s is None or not times_s:
        return None
    median_s = (times_s[(len(times_s) - 1) // 2] + times_s[len(times_s) // 2]) / 2
    return Advice(
        action=action,
        gain=(work.step_s - median_s) * work.step_calls / work.wall_s,
        basis=f"a step took {1e3 * work.step_s:.2f} ms here and {1e3 * median_s:.2f} ms in {len(times_s)} other "
        f"run{'s' if len(times_s) != 1 else ''} that did",
        caveat=caveat,
    )
