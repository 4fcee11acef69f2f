"""The bottleneck of a run, with the evidence, and advice on what would make the run shorter.

Everything is computed from the figures of runs. Advice is given only if its gain can be computed from what this run and
others like it measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median, median_low
from typing import Any

from ledger_lab.ledger import Run, RunDeclared
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.ledger.libraries import replays
from ledger_lab.ledger.meters import LOOP_PHASES, TRAINING_PHASES, Phase
from ledger_lab.panels.slot_count import slots_in_all
from ledger_lab.reports.summary import RunSummary

_NAMES = {
    Phase.STARTUP: "start-up-bound",
    Phase.COMPILE: "compile-bound",
    Phase.SIMULATE: "simulation-bound",
    Phase.MANAGE: "manager-bound",
    Phase.INFER: "inference-bound",
    Phase.REPLAY_WRITE: "replay-bound",
    Phase.RETURNS: "learner-bound",
    Phase.REPLAY_SAMPLE: "replay-bound",
    Phase.LEARN: "learner-bound",
    Phase.SYNCHRONIZE: "synchronisation-bound",
    Phase.TRANSFER: "transfer-bound",
    Phase.EVALUATE: "evaluation-bound",
    Phase.LOG: "logging-bound",
    Phase.CHECKPOINT: "checkpoint-bound",
    Phase.RESTART: "restart-bound",
    Phase.SUSPENDED: "suspended",
    Phase.SHUTDOWN: "shutdown-bound",
    Phase.UNATTRIBUTED: "of no known bound",
}
"""Name of the bottleneck, by the phase that took the time; ``returns`` counts for the learner."""

_MEMORY_BOUND = "memory-bound"

_GROWING = frozenset({"simulation-bound", "manager-bound", "inference-bound", "learner-bound"})
"""Bottlenecks that more environments at once would relieve, which takes more memory."""

_FULL = 0.95
"""Share of memory above which it counts as full."""

_IDLE, _BUSY = 0.5, 0.9
"""Utilization below which a device counts as waiting, and share of a core above which a thread counts as the cause."""

_CLOSE = 0.9
"""A part larger than this share of the largest part is named as a bottleneck too."""


_LEAST_GAIN = 0.1
"""Smallest gain that is advised, as a share of wall-clock time."""

_LEAST_ITERATIONS = 5
"""Shortest run whose times are used; shorter runs are dominated by their first steps."""

_COLD = 1.5
"""A start-up that takes this many times as long as in other runs counts as a cold start, for example with an empty
cache."""

_FREE = ("env.scene.num_envs=", "env.seed=", "agent.")
"""Beginnings of overrides that do not change the time of a simulation step."""


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

    name: str
    """Name of the bottleneck, for example ``simulation-bound``."""
    share: float
    """Share of wall-clock time of the phases behind the name, in [0, 1]."""
    close: list[str]
    """Other names whose share is nearly as large, the largest first."""
    evidence: str
    """What was measured, in words."""
    advice: list[Advice]
    """Advice that would make the run shorter, the largest gain first."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)


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
    advisor = _Advisor(pairs if ledger is None else ledger)
    found = {run.run_id: _bottleneck(run, summary, advisor) for run, summary in pairs}
    return {run_id: bottleneck for run_id, bottleneck in found.items() if bottleneck is not None}


def _bottleneck(run: Run, summary: RunSummary, advisor: _Advisor) -> Bottleneck | None:
    """Find where most of a run's time went; ``None`` for a run that recorded no time."""
    phases, wall_s = _told_apart(run, summary), summary.wall_s
    shares = _shares(phases, wall_s)
    if not shares:
        return None
    (name, share), *rest = shares
    close = [other for other, part in rest if part >= _CLOSE * share]
    evidence = [f"{_phases_in_words(phases, name, wall_s)} of {wall_s:.1f} s"]
    if close:
        followers = ", ".join(_phases_in_words(phases, other, wall_s) for other in close)
        evidence.append(f"closely followed by {followers}")
    loop = {phase: seconds for phase, seconds in phases.items() if phase in TRAINING_PHASES}
    loop_s = sum(loop.values())
    if loop and (inside := _shares(loop, loop_s)) and inside[0][0] not in (name, *close):
        evidence.append(f"of the training loop, {_phases_in_words(loop, inside[0][0], loop_s)}")
    if _times_launches(run.declared):
        evidence.append("these are times of launches, not of the GPU's work, which --timing events measures")
    evidence += [*_device_bound_in_words(run, name), *_waiting_in_words(summary)]
    if name in _GROWING and (full := _full_memory_in_words(run, summary)) is not None:
        evidence.insert(0, full)
        name, close = _MEMORY_BOUND, [name, *close]
    advice = advisor.advise(run, summary)
    return Bottleneck(name=name, share=share, close=close, evidence="; ".join(evidence), advice=advice)


def _told_apart(run: Run, summary: RunSummary) -> Mapping[str, float]:
    """Return the phases of a run [s], with those of its loop as one if the times of launches cannot tell them apart.

    The host launches work in one phase, and waits for the device in another.
    """
    if not _times_launches(run.declared):
        return summary.phases
    told = {phase: seconds for phase, seconds in summary.phases.items() if phase not in LOOP_PHASES}
    return {**told, Phase.UNATTRIBUTED: sum(summary.phases.values()) - sum(told.values())}


def _waiting_in_words(summary: RunSummary) -> list[str]:
    """Return that the devices mostly waited while one thread of the host was busy, if this was so."""
    busy = summary.mean_gpu_utilization
    thread = None if summary.host is None else summary.host.mean_busiest_thread
    if busy is None or thread is None or busy >= _IDLE or thread < _BUSY:
        return []
    return [f"one thread took {thread:.0%} of a core, and the device, busy for {busy:.0%} of the time, waited for it"]


def _full_memory_in_words(run: Run, summary: RunSummary) -> str | None:
    """Return how full the memory of the device was, or of the host without a device; ``None`` if not, or unknown."""
    on_gpu = run.declared.device != "cpu"
    size = run.declared.hardware.get("accelerator_memory_bytes" if on_gpu else "memory_bytes")
    if not size:
        return None
    if on_gpu:
        peaks = [device.peak_memory_gb for device in summary.devices if device.peak_memory_gb is not None]
        used_gb = max(peaks, default=0.0)
    else:
        used_gb = 0.0 if summary.host is None else size / 1e9 - summary.host.least_available_gb
    share = used_gb * 1e9 / size
    return f"{share:.0%} of {size / 1e9:.1f} GB of memory in use" if share >= _FULL else None


def _device_bound_in_words(run: Run, name: str) -> list[str]:
    """Return in how much of the phases behind a name the device determined the time, if that was measured."""
    if run.declared.timing != "events":
        return []
    own = [phase for phase in LOOP_PHASES if _NAMES[phase] == name]  # during the start-up, the host alone is measured
    bound_ns = spent_ns = 0
    for _, window in run.windows:
        if window.device_bound_ns is not None:
            bound_ns += sum(window.device_bound_ns.get(phase, 0) for phase in own)
            spent_ns += sum(window.phase_ns.get(phase, 0) for phase in own)
    if not spent_ns:
        return []
    share = bound_ns / spent_ns
    return [f"the GPU determined {share:.0%} of this time; in the rest, the processor worked or waited for the GPU"]


def _shares(phases: Mapping[str, float], whole_s: float) -> list[tuple[str, float]]:
    """Return each name's share of a time, the largest first; equal shares keep the order of the phases."""
    shares: dict[str, float] = {}
    for phase in Phase:
        if phases.get(phase, 0.0) > 0 and whole_s > 0:
            shares[_NAMES[phase]] = shares.get(_NAMES[phase], 0.0) + phases[phase] / whole_s
    return sorted(shares.items(), key=lambda pair: pair[1], reverse=True)


def _phases_in_words(phases: Mapping[str, float], name: str, whole_s: float) -> str:
    """Return the phases behind a name with their share of a time."""
    own = {phase: phases[phase] for phase in Phase if _NAMES[phase] == name and phases.get(phase, 0.0) > 0}
    seconds = sum(own.values())
    return f"{' and '.join(own)} {seconds / whole_s:.0%} ({seconds:.1f} s)"


class _Advisor:
    """Gives advice on the runs of a ledger. What runs have in common is computed once."""

    def __init__(self, ledger: Iterable[tuple[Run, RunSummary]]) -> None:
        """Sort what all runs measured by their surroundings."""
        self._starts_s: dict[bytes, list[float]] = defaultdict(list)
        self._steps_s: dict[bytes, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for run, summary in ledger:
            if (start_s := _start_s(run, summary)) is not None:
                self._starts_s[_start_group(run.declared)].append(start_s)
            if (step_s := _step_s(run, summary)) is not None:
                self._steps_s[_step_group(run.declared)][run.declared.num_envs].append(step_s)

    def advise(self, run: Run, summary: RunSummary) -> list[Advice]:
        """Return all advice on a run, the largest gain first."""
        if summary.wall_s <= 0:
            return []
        found = self._warmer_start(run, summary), self._more_environments(run, summary), _rarer_scoring(run, summary)
        advice = [each for each in found if each is not None and each.gain >= _LEAST_GAIN]
        return sorted(advice, key=lambda each: each.gain, reverse=True)

    def _more_environments(self, run: Run, summary: RunSummary) -> Advice | None:
        """Advise the number of environments with which other runs took the least time per environment step."""
        own_s, envs = _step_s(run, summary), run.declared.num_envs
        by_size = self._steps_s.get(_step_group(run.declared), {})
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

    def _warmer_start(self, run: Run, summary: RunSummary) -> Advice | None:
        """Advise warm caches, if other runs of the same size started faster."""
        own_s, starts_s = _start_s(run, summary), self._starts_s.get(_start_group(run.declared), [])
        if own_s is None or own_s < _COLD * (usual_s := median_low(starts_s)):
            return None
        return Advice(
            action="start with warm caches: keep the kernel cache (~/.cache/warp) and the packages on a local disk",
            gain=(own_s - usual_s) / summary.wall_s,
            basis=(
                f"start-up and compilation took {own_s:.1f} s here, and {usual_s:.1f} s in the median of "
                f"{len(starts_s)} runs of the same size"
            ),
        )


def _rarer_scoring(run: Run, summary: RunSummary) -> Advice | None:
    """Advise scoring half as many policies; the gain is the time of scoring outside the environment steps."""
    declared, step_s = run.declared, _seconds_in(summary, Phase.SIMULATE, Phase.MANAGE)
    screened = {row.checkpoint for row in run.results if row.purpose == "screening"}
    iterations = sorted(saved.iteration for saved in run.checkpoints if saved.path in screened)
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


def _iterations(run: Run, summary: RunSummary) -> int:
    """Return the iterations of a run that started once; 0 for other runs."""
    return summary.env_steps // run.declared.env_steps_per_iteration if len(run.attempts) == 1 else 0


def _measures(run: Run, summary: RunSummary) -> bool:
    """Tell whether a run measured its loop, long and undisturbed enough for its times to be compared."""
    return _iterations(run, summary) >= _LEAST_ITERATIONS and not _times_launches(run.declared)


def _start_s(run: Run, summary: RunSummary) -> float | None:
    """Return the time of start-up and compilation of a run that started once and trained [s]."""
    return _seconds_in(summary, Phase.STARTUP, Phase.COMPILE) if _iterations(run, summary) else None


def _step_s(run: Run, summary: RunSummary) -> float | None:
    """Return the time of an environment step and of the policy in it, without the share of held-out slots [s]."""
    rollout_s = _seconds_in(summary, Phase.SIMULATE, Phase.MANAGE, Phase.INFER) if _measures(run, summary) else None
    return None if rollout_s is None else rollout_s / summary.env_steps


def _surroundings(declared: RunDeclared, *more: object) -> bytes:
    """Return what must be equal before times are compared."""
    versions = {name: version for name, version in declared.versions.items() if name != "ledger_lab"}
    overrides = sorted(each for each in declared.overrides if not each.startswith(_FREE))
    names = "task", "rl_library", "agent", "device", "world_size", "physics", "hardware", "machine", "timing"
    own = [getattr(declared, name) for name in names]
    return canonical_json([*own, versions, overrides, declared.held_out_slots, *more])


def _start_group(declared: RunDeclared) -> bytes:
    """Return what runs have in common whose start-ups are alike."""
    return _surroundings(declared, declared.num_envs)


def _step_group(declared: RunDeclared) -> bytes:
    """Return what runs have in common whose steps are alike, whatever their number of environments."""
    return _surroundings(declared, declared.config_sha256.get("agent"))
