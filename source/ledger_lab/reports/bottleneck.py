"""The bottleneck of a run, and advice on what would make the run shorter.

Advice is given only if its gain can be computed from what this run and others like it measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ledger_lab.ledger import Run, RunDeclared
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.ledger.libraries import replays
from ledger_lab.ledger.meters.phases import LOOP_PHASES, Phase
from ledger_lab.panels.panel import slots_in_all
from ledger_lab.reports.summary import RunSummary

_LEAST_GAIN = 0.1
"""Smallest gain that is advised, as a share of wall-clock time."""

_LEAST_ITERATIONS = 5
"""Shortest run whose times are used; shorter runs are dominated by their first steps."""

_FREE = ("env.scene.num_envs=", "env.seed=", "agent.")
"""Beginnings of overrides that do not change the time of a simulation step."""


type _Steps = Mapping[bytes, Mapping[int, list[float]]]
"""Times of environment steps that runs measured [s], by what these runs have in common and by their environments."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One change, and the time it would save. Gains of several pieces of advice do not add up."""

    action: str
    gain: float
    """Share of the run's wall-clock time that the change saves for the same number of environment steps; in (0, 1)."""
    basis: str
    """The measured figures that the gain is computed from, and how."""
    caveat: str | None = None
    """Side effects of the change."""


@dataclass(frozen=True, kw_only=True)
class Bottleneck:
    """Where most of a run's time went."""

    phase: str
    """The phase that took most time; ``training loop`` if its phases are times of launches, which tell nothing about
    the time of the work itself."""
    times_launches: bool
    share: float
    """Its share of the wall-clock time, in [0, 1]."""
    device_bound: float | None
    """Share of its time that the GPU determined; in the rest, the processor worked or waited for the GPU. ``None`` if
    not measured."""
    advice: list[Advice]
    """Advice that would make the run shorter, the largest gain first."""


def find_bottlenecks(
    runs: Sequence[Run], summaries: Sequence[RunSummary], ledger: Sequence[tuple[Run, RunSummary]] | None = None
) -> dict[str, Bottleneck]:
    """Find the bottlenecks of runs.

    Args:
        runs: The runs to look at.
        summaries: Their summaries, in the same order.
        ledger: All runs to compare with, these among them, and their summaries; ``None`` to compare these only.

    Returns:
        Bottlenecks by run id, without runs that recorded no time.
    """
    pairs = list(zip(runs, summaries, strict=True))
    steps_s: dict[bytes, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run, summary in pairs if ledger is None else ledger:
        if (step_s := _step_s(run, summary)) is not None:
            steps_s[_surroundings(run.declared)][run.declared.num_envs].append(step_s)
    return {
        run.run_id: _bottleneck(run, summary, steps_s)
        for run, summary in pairs
        if summary.wall_s > 0 and summary.phases
    }


def _bottleneck(run: Run, summary: RunSummary, steps_s: _Steps) -> Bottleneck:
    """Find the phase that took most of a run's time; of equal phases, the first."""
    phases = {str(phase): summary.phases[phase] for phase in Phase if phase in summary.phases}
    if times_launches := _times_launches(run.declared):
        phases["training loop"] = sum(phases.pop(phase, 0.0) for phase in LOOP_PHASES)
    phase, seconds = max(phases.items(), key=lambda each: each[1])
    found = _more_environments(run, summary, steps_s), _rarer_scoring(run, summary)
    advice = [each for each in found if each is not None and each.gain >= _LEAST_GAIN]
    return Bottleneck(
        phase=phase,
        times_launches=times_launches,
        share=seconds / summary.wall_s,
        device_bound=_device_bound(run, phase) if phase in LOOP_PHASES else None,
        advice=sorted(advice, key=lambda each: each.gain, reverse=True),
    )


def _device_bound(run: Run, phase: str) -> float | None:
    """Return the share of a phase in which the device determined the time; ``None`` if that was not measured."""
    known = [window for _, window in run.windows if window.device_bound_ns is not None]
    spent_ns = sum(window.phase_ns.get(phase, 0) for window in known)
    return sum((window.device_bound_ns or {}).get(phase, 0) for window in known) / spent_ns if spent_ns else None


def _more_environments(run: Run, summary: RunSummary, steps_s: _Steps) -> Advice | None:
    """Advise the number of environments with which other runs took the least time per environment step."""
    own_s, envs = _step_s(run, summary), run.declared.num_envs
    by_size = steps_s[_surroundings(run.declared)]
    larger = {size: median(times_s) for size, times_s in by_size.items() if size > envs}
    if own_s is None or not larger:
        return None
    best = min(larger, key=lambda size: larger[size])
    caveat = "may take more steps to learn"
    if replays(summary.algorithm):
        caveat += "; changes the gradient steps per environment step, and the size of the replay memory"
    return Advice(
        action=f"train in {best} environments instead of {envs}",
        gain=summary.env_steps * (own_s - larger[best]) / summary.wall_s,
        basis=(
            f"simulate, manage and infer took {1e6 * own_s:.3g} µs per environment step here, and "
            f"{1e6 * larger[best]:.3g} µs in the median of runs in {best} environments"
        ),
        caveat=caveat,
    )


def _rarer_scoring(run: Run, summary: RunSummary) -> Advice | None:
    """Advise scoring half as many policies; the gain is the time of scoring outside the environment steps."""
    declared, step_s = run.declared, _seconds_in(summary, Phase.SIMULATE, Phase.MANAGE)
    checked = {row.checkpoint for row in run.results if row.purpose == "check"}
    iterations = sorted(saved.iteration for saved in run.checkpoints if saved.path in checked)
    if not _measures(run, summary) or step_s is None or len(iterations) < 3 or not declared.held_out_slots:
        return None
    evaluate_ns = sum(window.phase_ns.get(Phase.EVALUATE, 0) for _, window in run.windows if window.iteration)
    held_out = slots_in_all(declared.num_envs, declared.held_out_slots) - declared.num_envs
    slots_s = step_s * held_out / declared.num_envs
    scoring_s = evaluate_ns / 1e9 - slots_s
    every = round(2 * (iterations[-1] - iterations[0]) / (len(iterations) - 1))
    return Advice(
        action=f"score half as often: --eval_every {every}",
        gain=scoring_s / 2 / summary.wall_s,
        basis=(
            f"of evaluate in the training loop, {slots_s:.1f} s are the held-out slots' part of the steps, at any "
            f"cadence; scoring {len(iterations)} policies took {scoring_s:.1f} s"
        ),
        caveat="a policy that reaches the target is noticed later",
    )


def _seconds_in(summary: RunSummary, *phases: Phase) -> float | None:
    """Return the time of a run in some phases [s]; ``None`` if none of them took any time."""
    found = [summary.phases[phase] for phase in phases if phase in summary.phases]
    return sum(found) if found else None


def _times_launches(declared: RunDeclared) -> bool:
    """Tell whether the phases of a run are the times in which the host launched work, not those of the work itself."""
    return declared.device != "cpu" and declared.timing == "host"


def _measures(run: Run, summary: RunSummary) -> bool:
    """Tell whether a run measured its loop, long and undisturbed enough for its times to be compared."""
    iterations = summary.env_steps // run.declared.env_steps_per_iteration
    return len(run.attempts) == 1 and iterations >= _LEAST_ITERATIONS and not _times_launches(run.declared)


def _step_s(run: Run, summary: RunSummary) -> float | None:
    """Return the time of an environment step and of the policy in it, without the share of held-out slots [s]."""
    rollout_s = _seconds_in(summary, Phase.SIMULATE, Phase.MANAGE, Phase.INFER) if _measures(run, summary) else None
    return None if rollout_s is None else rollout_s / summary.env_steps


def _surroundings(declared: RunDeclared) -> bytes:
    """Return what must be equal before times of steps are compared, whatever the number of environments."""
    versions = {name: version for name, version in declared.versions.items() if name != "ledger_lab"}
    overrides = sorted(each for each in declared.overrides if not each.startswith(_FREE))
    names = "task", "rl_library", "agent", "device", "world_size", "physics", "hardware", "machine", "timing"
    own = [getattr(declared, name) for name in (*names, "held_out_slots")]
    return canonical_json([*own, versions, overrides, declared.config_sha256.get("agent")])
