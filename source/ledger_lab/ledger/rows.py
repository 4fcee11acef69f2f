"""The closed list of row kinds.

A row is a frozen dataclass; its class name is its kind. Durations are integers in nanoseconds, so that the phases sum
to the wall-clock time exactly. A figure that was not measured is ``None``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self


class Status(StrEnum):
    """How an attempt or an evaluation ended."""

    COMPLETED = "completed"
    """All work was done; the target, if there was one, was not reached."""
    TARGET_REACHED = "target_reached"
    """A checkpoint reached the held-out target."""
    INTERRUPTED = "interrupted"
    """The user pressed Ctrl-C."""
    PREEMPTED = "preempted"
    """The system asked the process to end (SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU)."""
    KILLED = "killed"
    """The process was killed with SIGKILL, and memory was not short."""
    CRASHED = "crashed"
    """An exception or a fault ended it."""
    DISK_FULL = "disk_full"
    """The disk was full when a checkpoint or a row was written."""
    OUT_OF_MEMORY = "out_of_memory"
    """Host or device memory ran out."""
    NON_FINITE = "non_finite"
    """NaN or infinity in observations, rewards or losses."""
    INVALID = "invalid"
    """The scores prove nothing: the physics engine dropped contacts or constraints, or the processes of the training
    hold different parameters."""
    STOPPED = "stopped"
    """A health event that is listed in ``--stop_on`` ended it."""
    RUNNING = "running"
    """No end is written yet; only the reader uses this status."""
    LOST = "lost"
    """No end was ever written; only the reader uses this status."""

    @property
    def failed(self) -> bool:
        """Whether the work was left unfinished."""
        return self not in (Status.COMPLETED, Status.TARGET_REACHED, Status.RUNNING)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One immutable record of the ledger."""

    DURABLE: ClassVar[bool] = True
    """Whether the row is on disk before the program goes on. Other rows, such as telemetry, may be written in
    batches."""

    def to_data(self) -> dict[str, Any]:
        """Return the fields as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Build the row from what :meth:`to_data` returned.

        Raises:
            TypeError: If a field is missing or unknown.
            ValueError: If a value breaks an invariant.
        """
        return cls(**data)


@dataclass(frozen=True, kw_only=True)
class RunDeclared(Row):
    """Declaration of a run, written before any cost arises."""

    run_id: str
    cohort: str | None
    task: str
    rl_library: str
    experiment: str
    overrides: list[str]
    """Hydra overrides of the command line; with the task, they define the configurations."""
    agent: str | None = None
    """Name under which the task registers the agent configuration; ``None`` for the library's default."""
    seed: int
    device: str
    num_envs: int
    """Environments per process."""
    world_size: int
    """Number of processes."""
    machines: int = 1
    """Number of machines."""
    max_iterations: int
    horizon: int
    """Environment steps per iteration and environment."""
    epochs: int
    minibatches: int
    panel: str
    panel_id: str
    panel_fields: dict[str, Any]
    """Fields that the panel id is a hash of, so that a refusal to compare can name the difference."""
    target_success: float
    held_out_slots: int
    """Held-out slots beside the training environments of each process; 0 for none."""
    eval_every: int | None
    """Iterations between two scored policies; ``None`` if scoring is continuous."""
    stop_at_target: bool
    error_budget: float
    """Probability that the run confirms a policy below the target."""
    stop_on: list[str]
    """Names of the health events that end the run."""
    physics: str
    timing: Literal["host", "synchronized"]
    save_state_every: int | None = None
    """Iterations between two saved states, 0 for none; ``None`` for the default of the program."""
    price: dict[str, Any]
    """The price entry at the start of the run."""
    config_sha256: dict[str, str]
    versions: dict[str, str]
    code_sha256: dict[str, str] = field(default_factory=dict)
    """Hashes of the source of LedgerLab and of the packages that the task uses; empty if unknown."""
    began_from: dict[str, Any] | None = None
    """The checkpoint whose networks the run started with, and their cost; ``None`` if they were random."""
    git: dict[str, Any]
    """Commit and diff hash of LedgerLab's source, or of the program; for information only."""
    hardware: dict[str, Any]
    command: list[str]

    @property
    def env_steps_per_iteration(self) -> int:
        """Environment steps of all processes in one iteration."""
        return self.num_envs * self.horizon * self.world_size

    @property
    def devices(self) -> int:
        """Devices that the run pays for: one accelerator per process; without accelerators, its machines."""
        return self.world_size if self.device.startswith("cuda") else self.machines


@dataclass(frozen=True, kw_only=True)
class CohortDeclared(Row):
    """Declared number of runs of a cohort, written before the first run, so that a missing run shows."""

    cohort: str
    size: int

    def __post_init__(self) -> None:
        """Check the size.

        Raises:
            ValueError: If the size is not a whole number of at least 1.
        """
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise ValueError(f"size must be a whole number of at least 1, not {self.size!r}")


@dataclass(frozen=True, kw_only=True)
class SupervisionStarted(Row):
    """A supervisor started; its journal will record how the attempt ended."""

    run_id: str
    attempt: int | None
    """``None`` for a stand-alone evaluation."""
    pid: int
    """Process id of the supervisor."""
    host: str
    wall_ns: int
    """Age of the attempt."""
    rank: int = 0
    """Rank of the supervised process."""


@dataclass(frozen=True, kw_only=True)
class TelemetryStarted(Row):
    """First row of a journal with the telemetry of one process of an attempt.

    All other rows are in other journals, so this journal need not be kept.
    """

    run_id: str
    attempt: int
    rank: int
    """Rank of the watched process."""


@dataclass(frozen=True, kw_only=True)
class AttemptStarted(Row):
    """A process of an attempt started."""

    run_id: str
    attempt: int
    rank: int
    pid: int
    host: str
    wall_ns: int
    """Age of the process when the row was written: the time of imports and parsing."""
    seed: int | None = None
    """Training seed of this process; ``None`` if unknown."""


@dataclass(frozen=True, kw_only=True)
class PhaseWindow(Row):
    """Time per phase since the last window. Also the heartbeat of an attempt."""

    DURABLE: ClassVar[bool] = False

    iteration: int | None
    """Iterations completed, or ``None`` outside the training loop."""
    env_steps: int
    """Environment steps of all processes so far."""
    phase_ns: dict[str, int]
    """Nanoseconds per phase since the last window; phases that took no time are left out."""
    wall_ns: int
    """Nanoseconds since the attempt's process started."""
    figures: dict[str, float]
    """Training figures of this iteration, by the names of :data:`FIGURES`. Figures that were not measured are left out;
    those that are not finite are in :attr:`non_finite`."""
    non_finite: list[str]
    """Names of figures that were not finite."""


FIGURES = {
    "mean_return": "mean undiscounted return of the training episodes that ended lately",
    "mean_episode_steps": "mean length of the training episodes that ended lately [environment steps]",
    "value_loss": "loss of the value function",
    "policy_loss": "surrogate loss of the policy",
    "entropy": "mean entropy of the policy's distribution [nat]",
    "action_std": "mean standard deviation of the policy's distribution",
    "kl": "mean Kullback-Leibler divergence of the update [nat]",
    "grad_norm": "largest norm of the gradient before it was clipped",
    "learning_rate": "step size of the optimizer",
}
"""Training figures that every library should report, with their meaning."""


@dataclass(frozen=True, kw_only=True)
class DeviceSample:
    """Readings of one accelerator at one time; ``None`` if it has no such meter."""

    uuid: str
    utilization: float | None
    """Share of the driver's last averaging period (at most one second) in which a kernel ran, in [0, 1]."""
    memory_used_bytes: int | None
    """Memory in use on the whole device."""
    power_w: float | None
    energy_mj: int | None
    """Energy counter of the device [mJ]; only differences are meaningful."""
    temperature_c: float | None
    sm_clock_mhz: int | None


@dataclass(frozen=True, kw_only=True)
class HostSample:
    """Use of the host by the processes of the attempt since the last sample."""

    cpu_s: float
    """Processor seconds of all threads since the last sample [s]."""
    busiest_thread: float | None
    """Share of one core that the busiest thread used, in [0, 1]."""
    memory_bytes: int
    """Resident memory of the attempt's processes."""
    available_bytes: int
    """Available memory of the host."""


@dataclass(frozen=True, kw_only=True)
class Telemetry(Row):
    """Sample of host and accelerators. Also the heartbeat of the supervisor."""

    DURABLE: ClassVar[bool] = False

    wall_ns: int
    """Age of the attempt."""
    host: HostSample | None
    """Sample of the host: the fields of :class:`HostSample`."""
    devices: list[DeviceSample]

    def __post_init__(self) -> None:
        """Restore the samples from plain values."""
        host: Any = self.host
        object.__setattr__(self, "host", HostSample(**host) if isinstance(host, dict) else host)
        devices: list[Any] = self.devices
        restored = [DeviceSample(**each) if isinstance(each, dict) else each for each in devices]
        object.__setattr__(self, "devices", restored)


@dataclass(frozen=True, kw_only=True)
class Health(Row):
    """A health event: something goes wrong in a training."""

    event: str
    """Name of the event, as in ``--stop_on``."""
    iteration: int
    """Iterations completed."""
    wall_ns: int
    evidence: str
    """The observation, with its figures."""
    advice: str
    """What to do."""
    stops: bool
    """Whether it ends the run."""


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved(Row):
    """A policy was written to disk."""

    path: str
    """Path below the run's directory."""
    sha256: str
    size_bytes: int
    iteration: int
    """Iterations completed when it was saved."""
    env_steps: int
    wall_ns: int


@dataclass(frozen=True, kw_only=True)
class AttemptEnded(Row):
    """How an attempt ended, written once, before shutdown."""

    status: Status
    reason: str | None
    wall_ns: int
    peak_host_memory_bytes: int | None
    peak_gpu_memory_bytes: int | None

    def __post_init__(self) -> None:
        """Restore the status from its plain value.

        Raises:
            ValueError: If the status is unknown or reserved for the reader.
        """
        object.__setattr__(self, "status", Status(self.status))
        if self.status in (Status.LOST, Status.RUNNING):
            raise ValueError(f"an attempt that writes its end is not {self.status}")


@dataclass(frozen=True, kw_only=True)
class ShutdownEnded(Row):
    """The processes of an attempt or an evaluation have exited, after their end was written."""

    wall_ns: int
    """Age of the attempt."""
    exit_code: int | None
    """Exit status of the process; ``None`` if a signal ended it."""
    signal: str | None
    """Name of the signal that ended it."""
    overdue: bool
    """Whether it was killed because it did not exit in time."""


@dataclass(frozen=True, kw_only=True)
class EvaluationStarted(Row):
    """A stand-alone evaluation of checkpoints of a run started."""

    run_id: str
    panel: str
    panel_id: str
    panel_fields: dict[str, Any]
    checkpoints: list[str]
    device: str
    versions: dict[str, str]
    code_sha256: dict[str, str] = field(default_factory=dict)
    """As in :class:`RunDeclared`."""
    host: str
    pid: int
    wall_ns: int


@dataclass(frozen=True, kw_only=True)
class EvaluationEnded(AttemptEnded):
    """How a stand-alone evaluation ended."""
