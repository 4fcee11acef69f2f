"""The bottleneck of a run, with the evidence, and advice on what would make the run shorter.

Everything is computed from the figures of runs. Advice is given only if its gain can be computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ledger_lab.ledger import Run
from ledger_lab.ledger.meters import LOOP_PHASES, TRAINING_PHASES, Phase
from ledger_lab.reports.advice import Advice, Advisor, times_launches
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
    advisor = Advisor(pairs if ledger is None else ledger)
    found = {run.run_id: _bottleneck(run, summary, advisor) for run, summary in pairs}
    return {run_id: bottleneck for run_id, bottleneck in found.items() if bottleneck is not None}


def _bottleneck(run: Run, summary: RunSummary, advisor: Advisor) -> Bottleneck | None:
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
    if times_launches(run.declared):
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
    if not times_launches(run.declared):
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
