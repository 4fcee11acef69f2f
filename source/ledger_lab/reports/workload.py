"""A run's work and its times, in a form that can be compared with other runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from ledger_lab.ledger import Run, RunDeclared, Telemetry, Timing
from ledger_lab.ledger.encoding import canonical_json
from ledger_lab.ledger.libraries import dialects
from ledger_lab.ledger.meters import Phase
from ledger_lab.panels.slot_count import slots_in_all
from ledger_lab.reports.summary import RunSummary

NO_GRAPH = "env.sim.physics.use_cuda_graph="
"""Override that turns off the physics engine's recording of its steps."""

_FREE = (
    "env.scene.num_envs=",
    "env.seed=",
    *(f"{dialect.seed}=" for dialect in dialects()),
    *(
        f"{dialect.overrides[field]}="
        for dialect in dialects()
        for field in ("max_iterations", "save_interval", "horizon", "epochs", "minibatches")
    ),
)
"""Overrides that do not change the time of a single computation, or that have a field of their own here."""

_ELSEWHERE = frozenset({"ledger_lab"})
"""Packages whose version does not change the speed of a step."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The work of a run. Counts are per process, as the phases are."""

    run_id: str
    surroundings: bytes
    """Must be equal before times are compared: task, library, algorithm, device, physics, host, packages, overrides."""
    agent: str | None
    """Hash of the agent's configuration."""
    algorithm: str | None
    """``None`` if the library is none of ours."""
    code: bytes
    """Identifies the source code, which also contains the recipes: its hash, or version and commit if no hash was
    recorded."""
    graphs: bool
    """Whether the physics engine recorded its steps, which is the default."""
    timing: Timing
    launch_times: bool
    """Whether the phases of the loop are the times in which the host launched work on a device, because the time of
    the device was not measured."""
    num_envs: int
    held_out_slots: int
    horizon: int
    epochs: int
    minibatches: int
    iterations: int
    attempts: int
    phases: Mapping[str, float]
    """Seconds per phase; they sum to :attr:`wall_s`."""
    wall_s: float
    peak_memory_gb: float | None
    """Peak of the device's memory, or of the host's where there is no device [GB]."""
    memory_gb: float | None
    """Size of that memory [GB]; ``None`` if not recorded."""
    replay_gb: float | None
    """Memory that the replay memory takes [GB]; ``None`` without one."""

    @classmethod
    def of(cls, declared: RunDeclared, summary: RunSummary, attempts: int) -> Self:
        """Return the work of a run.

        Args:
            declared: The run's declaration.
            summary: The run's figures.
            attempts: Number of attempts.
        """
        on_gpu = declared.device != "cpu"
        memory_bytes = declared.hardware.get("accelerator_memory_bytes" if on_gpu else "memory_bytes")
        versions = {name: version for name, version in declared.versions.items() if name not in _ELSEWHERE}
        overrides = [o for o in declared.overrides if not o.startswith((*_FREE, NO_GRAPH))]
        surroundings = [
            declared.task,
            declared.rl_library,
            summary.algorithm,
            declared.device,
            declared.world_size,
            declared.physics,
            declared.hardware,
            declared.machine,
            versions,
            sorted(overrides),
        ]
        return cls(
            run_id=declared.run_id,
            surroundings=canonical_json(surroundings),
            agent=declared.config_sha256.get("agent"),
            algorithm=summary.algorithm,
            code=canonical_json(declared.code_sha256 or [declared.versions.get("ledger_lab"), declared.git]),
            graphs=not any(o.lower() in (NO_GRAPH + "false", NO_GRAPH + "0") for o in declared.overrides),
            timing=declared.timing,
            launch_times=on_gpu and declared.timing == "host",
            num_envs=declared.num_envs,
            held_out_slots=declared.held_out_slots,
            horizon=declared.horizon,
            epochs=declared.epochs,
            minibatches=declared.minibatches,
            iterations=summary.env_steps // declared.env_steps_per_iteration,
            attempts=attempts,
            phases=summary.phases,
            wall_s=summary.wall_s,
            peak_memory_gb=summary.peak_gpu_memory_gb if on_gpu else summary.peak_host_memory_gb,
            memory_gb=memory_bytes / 1e9 if isinstance(memory_bytes, int) and memory_bytes > 0 else None,
            replay_gb=summary.replay_memory_gb,
        )

    @property
    def slots(self) -> int:
        """Environments that were simulated: training environments and held-out slots."""
        return slots_in_all(self.num_envs, self.held_out_slots)

    @property
    def step_calls(self) -> int:
        """Number of environment steps, each of all environments together."""
        return self.iterations * self.horizon

    @property
    def minibatch_size(self) -> int:
        """Environment steps in a minibatch."""
        return self.num_envs * self.horizon // self.minibatches

    def phase_s(self, *phases: Phase) -> float | None:
        """Return the sum of phases [s]; ``None`` if none of them took any time."""
        found = [self.phases[phase] for phase in phases if phase in self.phases]
        return sum(found) if found else None

    @property
    def step_s(self) -> float | None:
        """Time of one step of all slots together, physics and managers [s]; the held-out slots' part included."""
        share_s = self.phase_s(Phase.SIMULATE, Phase.MANAGE)
        if share_s is None or not self.step_calls:
            return None
        return share_s * self.slots / self.num_envs / self.step_calls

    @property
    def infer_s(self) -> float | None:
        """Time of the rollout's forward passes per step [s]."""
        infer_s = self.phase_s(Phase.INFER)
        return None if infer_s is None or not self.step_calls else infer_s / self.step_calls

    @property
    def minibatch_s(self) -> float | None:
        """Time of one minibatch: forward, backward, optimizer [s]."""
        learn_s = self.phase_s(Phase.LEARN)
        minibatches = self.iterations * self.epochs * self.minibatches
        return None if learn_s is None or not minibatches else learn_s / minibatches


@dataclass(frozen=True, kw_only=True)
class LoopTelemetry:
    """Telemetry of the training loop: medians over its samples. ``None`` means not measured."""

    utilization: float | None
    """Share of the time in which a kernel ran on a device, in [0, 1]."""
    busiest_thread: float | None
    """Share of one core that the busiest thread took, in [0, 1]."""
    memory: float | None
    """Largest share of the device's memory in use; without a device, of the host's."""

    @classmethod
    def of(cls, run: Run, memory_gb: float | None) -> Self:
        """Summarize the telemetry of a run.

        Args:
            run: The run.
            memory_gb: Size of the memory, as :attr:`Workload.memory_gb`.
        """
        samples: list[Telemetry] = []
        for attempt in run.attempts:
            trained = [window.wall_ns for window in attempt.windows if window.iteration]
            if trained:
                samples += [s for s in attempt.of(Telemetry) if trained[0] <= s.wall_ns <= trained[-1]]
        if run.declared.device == "cpu":
            left = [s.host.available_bytes for s in samples if s.host is not None]
            used_gb = None if memory_gb is None or not left else memory_gb - min(left) / 1e9
        else:
            taken = [d.memory_used_bytes for s in samples for d in s.devices if d.memory_used_bytes is not None]
            used_gb = max(taken) / 1e9 if taken else None
        return cls(
            utilization=_median(d.utilization for s in samples for d in s.devices),
            busiest_thread=_median(s.host.busiest_thread for s in samples if s.host is not None),
            memory=None if used_gb is None or memory_gb is None else used_gb / memory_gb,
        )


def _median(figures: Iterable[float | None]) -> float | None:
    """Return the median; ``None`` if nothing was measured."""
    measured = [figure for figure in figures if figure is not None]
    return statistics.median(measured) if measured else None
