"""The bottleneck of a run, with the evidence, and advice on what would make the run shorter.

Everything is computed from rows: phases, telemetry, and other runs of the same ledger. Advice is given only if its gain
can be computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ledger_lab.ledger import Run
from ledger_lab.ledger.meters import LOOP_PHASES, TRAINING_PHASES, Phase
from ledger_lab.reports.advice import MEMORY_LIMIT, Advice, advise, is_host_bound
from ledger_lab.reports.peers import Peers
from ledger_lab.reports.summary import RunSummary
from ledger_lab.reports.workload import LoopTelemetry, Workload

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
        ledger: Further runs to compare with, and their summaries; the runs may be among them.

    Returns:
        Bottlenecks by run id, without runs that recorded no time.
    """
    pairs = list(zip(runs, summaries, strict=True))
    works = {
        run.declared.run_id: Workload.of(run.declared, summary, len(run.attempts))
        for run, summary in (*(ledger or ()), *pairs)
    }
    alike: dict[bytes, list[Workload]] = {}
    for work in works.values():
        alike.setdefault(work.surroundings, []).append(work)
    peers = {surroundings: Peers(each) for surroundings, each in alike.items()}
    found: dict[str, Bottleneck] = {}
    for run, _ in pairs:
        work = works[run.declared.run_id]
        bottleneck = find_bottleneck(work, peers[work.surroundings], run)
        if bottleneck is not None:
            found[work.run_id] = bottleneck
    return found


def find_bottleneck(work: Workload, peers: Peers, run: Run) -> Bottleneck | None:
    """Find where most of a run's time went, and what would make the run shorter.

    Args:
        work: The run's work.
        peers: The ledger's runs in the same surroundings, the run itself included.
        run: The run.

    Returns:
        The bottleneck; ``None`` for a run that recorded no time.
    """
    phases = _told_apart(work)
    shares = _shares(phases, work.wall_s)
    if not shares:
        return None
    usage = LoopTelemetry.of(run, work.memory_gb)
    (name, share), *rest = shares
    close = [other for other, part in rest if part >= _CLOSE * share]
    evidence = [f"{_phases_in_words(phases, name, work.wall_s)} of {work.wall_s:.1f} s"]
    if close:
        followers = ", ".join(_phases_in_words(phases, other, work.wall_s) for other in close)
        evidence.append(f"closely followed by {followers}")
    loop = {phase: seconds for phase, seconds in phases.items() if phase in TRAINING_PHASES}
    loop_s = sum(loop.values())
    if loop and (inside := _shares(loop, loop_s)) and inside[0][0] not in (name, *close):
        evidence.append(f"of the training loop, {_phases_in_words(loop, inside[0][0], loop_s)}")
    if work.launch_times:
        evidence.append("these are times of launches, not of the GPU's work, which --timing events measures")
    evidence += _device_bound_in_words(run, name)
    if usage.utilization is not None:
        evidence.append(f"a kernel ran on the device in {usage.utilization:.0%} of the time")
    if is_host_bound(usage):
        evidence.append(f"one thread took {usage.busiest_thread:.0%} of a core, and the device waited for it")
    if usage.memory is not None and usage.memory >= MEMORY_LIMIT and name in _GROWING:
        evidence.insert(
            0, f"{usage.memory:.0%} of {work.memory_gb:.1f} GB of memory in use, so no further environments fit"
        )
        name, close = _MEMORY_BOUND, [name, *close]
    return Bottleneck(
        name=name,
        share=share,
        close=close,
        evidence="; ".join(evidence),
        advice=advise(work, peers, run, usage),
    )


def _told_apart(work: Workload) -> Mapping[str, float]:
    """Return the phases of a run [s], with those of its loop as one if the times of launches cannot tell them apart.

    The host launches work in one phase, and waits for the device in another.
    """
    if not work.launch_times:
        return work.phases
    told = {phase: seconds for phase, seconds in work.phases.items() if phase not in LOOP_PHASES}
    return {**told, Phase.UNATTRIBUTED: sum(work.phases.values()) - sum(told.values())}


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
