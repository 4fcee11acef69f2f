"""The closed list of row kinds.

A row is a frozen dataclass; its class name is its kind. Durations are integers in nanoseconds, so that the phases sum
to the wall-clock time exactly. A figure that was not measured is ``None``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal, NotRequired, TypedDict

import msgspec

from ledger_lab.costs.prices import Price
from ledger_lab.ledger.row import Amount, Count, Measured, PathBelow, Positive, Row, RunId, Seed, Share


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
    REFUSED = "refused"
    """The request was refused before anything was trained or scored. The supervisor then removes the rows, so readers
    meet this status only where a removal failed."""
    STOPPED = "stopped"
    """A health event that is listed in ``--stop_on`` ended it."""
    LIMIT_REACHED = "limit_reached"
    """The run used up its ``--limit_s`` before a policy was confirmed."""
    RUNNING = "running"
    """No end is written yet; only the reader uses this status."""
    LOST = "lost"
    """No end was ever written; only the reader uses this status."""

    @property
    def failed(self) -> bool:
        """Whether the work was left unfinished, other than by a limit that the run declared."""
        return self not in (Status.COMPLETED, Status.TARGET_REACHED, Status.LIMIT_REACHED, Status.RUNNING)


Timing = Literal["host", "events", "synchronized"]
"""How the time per phase is measured where work runs on a device: by the host when it launches the work; by the device
when it finishes the work; or by the host, which waits for the device at the end of each window."""


class _BeganFrom(TypedDict):
    """The checkpoint whose networks a run began with."""

    run_id: RunId
    task: str
    checkpoint: PathBelow
    """Path below that run's directory."""
    sha256: str
    env_steps: Count
    """Environment steps of the training of the checkpoint, including earlier runs that its run began from."""
    wall_s: Amount
    """Wall-clock time of the same trainings [s]."""
    usd: Amount | None
    """Cost of the same trainings [USD]; ``None`` if the price is unknown."""
    confirmation_panels: NotRequired[Count]
    """Panels of confirmations of that run when this run was declared: what they left is this run's error budget.
    Missing in rows of earlier versions, whose runs always had a new error budget."""
    changed_code: NotRequired[dict[str, str]]
    """Observation and action code that has changed since the checkpoint was trained, as in :class:`PanelResult`."""


class _Recipe(TypedDict):
    """What a recipe file changed."""

    fields: dict[str, bool | int | float | str | list[Count] | None]
    """Values by the names of a recipe's fields, which are the same for all libraries."""
    num_envs: Positive | None
    """Environments per process; ``None`` for those of the task."""
    overrides: list[str]
    """Overrides of the task."""


class _Git(TypedDict, total=False):
    """State of source code in version control."""

    commit: str | None
    changes_sha256: str | None
    """Hash of the uncommitted changes; ``None`` if there were none."""


class _Hardware(TypedDict, total=False):
    """The machine that a run was declared on."""

    cpu: str | None
    cpu_cores: Count | None
    memory_bytes: Count | None
    torch_threads: Count | None
    """Threads of torch in the whole process; in rows of earlier versions."""
    act_threads: Count
    """Threads of torch in the forward passes of the rollout."""
    learn_threads: Count
    """Threads of torch in the gradient steps."""
    accelerator: str | None
    accelerator_memory_bytes: Count | None


@dataclass(frozen=True, kw_only=True)
class RunDeclared(Row):
    """Declaration of a run, written before any cost arises."""

    run_id: RunId
    cohort: str | None
    task: str
    rl_library: str
    experiment: str
    overrides: list[str]
    """Hydra overrides of the command line, and those that LedgerLab added: the default physics engine of LedgerLab's
    tasks on a CPU, and a scaled learning rate. With the task, they define the configurations."""
    agent: str | None = None
    """Name under which the task registers the agent configuration; ``None`` for the library's default."""
    recipe: dict[str, Any] | None = None
    """What a recipe file changed: ``fields`` by their names, ``num_envs`` and ``overrides`` of the task. ``None``
    without such a file, and in rows of earlier versions."""
    seed: Seed
    device: str
    num_envs: Positive
    """Environments per process."""
    world_size: Positive
    """Number of processes."""
    machines: Positive | None = None
    """Number of machines; ``None`` if unknown."""
    max_iterations: Count
    horizon: Positive
    """Environment steps per iteration and environment."""
    epochs: Positive
    minibatches: Positive
    panel: str
    panel_id: str
    panel_fields: dict[str, Any]
    """The fields whose hash is the panel id. If two ids differ, these fields show why."""
    target_success: Share
    held_out_slots: Count
    """Held-out slots beside the training environments of each process; 0 for none."""
    eval_every: Positive | None
    """Iterations between two scored policies; ``None`` if scoring is continuous."""
    stop_at_target: bool
    error_budget: Share
    """Highest probability that the run confirms a policy below the target. A run that began with a checkpoint has what
    the run of that checkpoint left."""
    verdict_rule: Positive = 1
    """Version of the rule of the verdict. By version 1, a confirmation has one panel; since version 2, a near miss is
    extended by further panels."""
    stop_on: list[str]
    """Names of the health events that end the run."""
    physics: str
    timing: Timing
    save_state_every: Count | None = None
    """Iterations between two saved states, 0 for none; ``None`` for the default of the program."""
    price: dict[str, Any]
    """The price entry at the start of the run."""
    config_sha256: dict[str, str]
    versions: dict[str, str]
    code_sha256: dict[str, str] = field(default_factory=dict)
    """Hashes of the source of LedgerLab and of the packages that the task uses; empty if unknown."""
    scoring_code: dict[str, str] | None = None
    """Hashes of the code that a score depends on, by ``module:name``: success function, terms, classes of the task, and
    what they refer to. ``None`` if unknown."""
    began_from: dict[str, Any] | None = None
    """The checkpoint whose networks the run started with, and their cost; ``None`` if they were random."""
    git: dict[str, Any]
    """Commit and hash of the uncommitted changes of LedgerLab's source, or of the program; for information only."""
    hardware: dict[str, Any]
    command: list[str]
    request: dict[str, Any] | None = None
    """The request of the user, by flag, with the defaults of flags that were left out and the default physics engine of
    LedgerLab's tasks on a CPU; ``None`` if unknown. A resumed run takes its request from here."""

    def __post_init__(self) -> None:
        """Check the nested values.

        Raises:
            ValueError: If a nested value has the wrong type or range.
        """
        Price.from_dict(self.price)
        msgspec.convert(self.git, _Git)
        msgspec.convert(self.hardware, _Hardware)
        msgspec.convert(self.began_from, _BeganFrom | None)
        msgspec.convert(self.recipe, _Recipe | None)

    @property
    def env_steps_per_iteration(self) -> int:
        """Environment steps of all processes in one iteration."""
        return self.num_envs * self.horizon * self.world_size

    @property
    def devices(self) -> int:
        """Devices that the run pays for: one accelerator per process; without accelerators, its machines.

        A run on an unknown number of machines pays for at least one of them.
        """
        return self.world_size if self.device.startswith("cuda") else self.machines or 1


@dataclass(frozen=True, kw_only=True)
class CohortDeclared(Row):
    """Declared number of runs of a cohort, written before the first run, so that a missing run shows."""

    cohort: str
    size: Positive

    def __post_init__(self) -> None:
        """Check the size.

        Raises:
            ValueError: If the size is not a whole number of at least 1.
        """
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise ValueError(f"size must be a whole number of at least 1, not {self.size!r}")


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """Identity of a process: unique among the processes of all machines, and independent of the clock."""

    boot_id: str
    """Id of the boot of the kernel."""
    pid_namespace: Count
    """Inode of the PID namespace: containers have their own."""
    start_ticks: Count
    """When the process started, in ticks since the boot."""


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """How many rows a journal had when another row named it, and the hash of the last of them."""

    rows: Positive
    hash: str
    """Hash of the last of these rows."""


@dataclass(frozen=True, kw_only=True)
class SupervisionStarted(Row):
    """A supervisor started; its journal will record how the attempt ended."""

    run_id: RunId
    attempt: Positive | None
    """``None`` for a stand-alone evaluation."""
    pid: Count
    """Process id of the supervisor."""
    host: str
    wall_ns: Count
    """Age of the attempt."""
    rank: Count = 0
    """Rank of the supervised process."""
    process: ProcessIdentity | None = None
    """The supervisor's process; ``None`` if unknown."""


@dataclass(frozen=True, kw_only=True)
class TelemetryStarted(Row):
    """First row of a journal with the telemetry of one process of an attempt, or of a stand-alone evaluation.

    All other rows are in other journals, so this journal need not be kept.
    """

    run_id: RunId
    attempt: Positive | None
    """``None`` for a stand-alone evaluation."""
    rank: Count
    """Rank of the watched process."""


@dataclass(frozen=True, kw_only=True)
class SchedulerJob:
    """The job of a cluster's scheduler that an attempt runs in."""

    engine: str
    """The scheduler, such as ``slurm``."""
    job: str
    """Id of the job; the tasks of an array share it."""
    index: Count
    """Index of the training in its plan; also that of the array task."""
    restarts: Count
    """How often the scheduler had started the job again."""
    partition: str | None = None
    """Partition or queue of the job; ``None`` if the scheduler has none."""
    nodes: list[str] = field(default_factory=list)
    """Names of its nodes, in the scheduler's order."""
    queue_s: Amount | None = None
    """Time from submission, or from the last requeueing, to this start, by the scheduler's clock [s]; ``None`` if
    unknown."""


@dataclass(frozen=True, kw_only=True)
class AttemptStarted(Row):
    """A process of an attempt started."""

    run_id: RunId
    attempt: Positive
    rank: Count
    pid: Count
    host: str
    wall_ns: Count
    """Age of the process when the row was written: the time of imports and parsing."""
    seed: Seed | None = None
    """Training seed of this process; ``None`` if unknown."""
    process: ProcessIdentity | None = None
    """This process; ``None`` if unknown."""
    anchors: dict[str, Anchor] = field(default_factory=dict)
    """Anchors of the journals of earlier attempts, by their names."""
    job: SchedulerJob | None = None
    """The job that it runs in; ``None`` outside a job, and in rows of earlier versions."""


@dataclass(frozen=True, kw_only=True)
class PhaseWindow(Row):
    """Time per phase since the last window. Also the heartbeat of an attempt."""

    DURABLE: ClassVar[bool] = False

    iteration: Count | None
    """Iterations completed, or ``None`` outside the training loop."""
    env_steps: Count
    """Environment steps of all processes so far."""
    phase_ns: dict[str, Count]
    """Nanoseconds per phase since the last window; phases that took no time are left out."""
    wall_ns: Count
    """Nanoseconds since the attempt's process started."""
    figures: dict[str, float]
    """Training figures of this iteration, by the names of :data:`FIGURES`. Figures that were not measured are left out;
    those that are not finite are in :attr:`non_finite`."""
    non_finite: list[str]
    """Names of figures that were not finite."""
    device_bound_ns: dict[str, Count] | None = None
    """Part of :attr:`phase_ns` in which a device determined the length, because it finished after the host had gone on
    [ns]. In the rest, the host launched work, computed, or waited for the device. ``None`` if no device's time was
    measured."""


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
    "replay_fill": "share of the replay memory that is filled",
    "replay_age": "mean age of the last batch that was drawn from the replay memory [steps of each environment]",
}
"""Training figures that every library should report, with their meaning; those of a replay memory, if it has one."""


@dataclass(frozen=True, kw_only=True)
class DeviceSample:
    """Readings of one accelerator at one time; ``None`` if it has no such meter."""

    uuid: str
    utilization: Share | None
    """Share of the driver's last averaging period (at most one second) in which a kernel ran, in [0, 1]."""
    memory_used_bytes: Count | None
    """Memory in use on the whole device."""
    power_w: Amount | None
    energy_mj: Count | None
    """Energy counter of the device [mJ]; only differences are meaningful."""
    temperature_c: Measured | None
    sm_clock_mhz: Count | None


@dataclass(frozen=True, kw_only=True)
class HostSample:
    """Use of the host by the processes of the attempt since the last sample."""

    cpu_s: Measured
    """Processor seconds of all threads since the last sample [s]."""
    busiest_thread: Measured | None
    """Share of one core that the busiest thread used, in [0, 1]."""
    memory_bytes: Count
    """Resident memory of the attempt's processes."""
    available_bytes: Count
    """Available memory of the host."""


@dataclass(frozen=True, kw_only=True)
class Telemetry(Row):
    """Sample of host and accelerators. Also the heartbeat of the supervisor."""

    DURABLE: ClassVar[bool] = False

    wall_ns: Count
    """Age of the attempt."""
    host: HostSample | None
    """Sample of the host: the fields of :class:`HostSample`."""
    devices: list[DeviceSample]


@dataclass(frozen=True, kw_only=True)
class Health(Row):
    """A health event: something goes wrong in a training."""

    event: str
    """Name of the event, as in ``--stop_on``."""
    iteration: Count
    """Iterations completed."""
    wall_ns: Count
    evidence: str
    """The observation, with its figures."""
    advice: str
    """What to do."""
    stops: bool
    """Whether it ends the run."""


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved(Row):
    """A policy was written to disk."""

    path: PathBelow
    """Path below the run's directory."""
    sha256: str
    size_bytes: Count
    iteration: Count
    """Iterations completed when it was saved."""
    env_steps: Count
    wall_ns: Count
    train_ns: Count | None = None
    """Time in the training phases up to that iteration, over all attempts without lost work [ns]; ``None`` if
    unknown."""
    evaluate_ns: Count | None = None
    """Time in the phase ``evaluate`` up to that iteration, over all attempts without lost work [ns]; ``None`` if
    unknown."""
    peak_host_memory_bytes: Count | None = None
    """Largest memory of the saving process on the host so far in this attempt; ``None`` if unknown."""
    peak_gpu_memory_bytes: Count | None = None
    """Largest device memory of the saving process so far in this attempt; ``None`` without an accelerator, or if
    unknown."""
    replay_bytes: Count | None = None
    """Part of the memory that the replay memory takes, on the device if there is an accelerator; ``None`` without a
    replay memory, or if unknown."""
    endings: dict[str, Count] | None = None
    """Number of training episodes that ended since the last checkpoint, by the termination that ended them, or
    ``unstable``. Episodes of all processes count. The first checkpoint of an attempt counts from the start of the
    attempt. ``None`` if unknown."""


@dataclass(frozen=True, kw_only=True)
class AttemptEnded(Row):
    """How an attempt ended. The row is written once, before the shutdown."""

    status: Status
    reason: str | None
    wall_ns: Count
    peak_host_memory_bytes: Count | None
    peak_gpu_memory_bytes: Count | None

    def __post_init__(self) -> None:
        """Refuse a status that is reserved for the reader.

        Raises:
            ValueError: If the status is reserved.
        """
        if self.status in (Status.LOST, Status.RUNNING):
            raise ValueError(f"an attempt that writes its end is not {self.status}")


@dataclass(frozen=True, kw_only=True)
class ShutdownEnded(Row):
    """The processes of an attempt or an evaluation have exited, after their end was written."""

    wall_ns: Count
    """Age of the attempt."""
    exit_code: int | None
    """Exit status of the process; ``None`` if a signal ended it."""
    signal: str | None
    """Name of the signal that ended it."""
    overdue: bool
    """Whether it was killed because it did not exit in time."""
    anchors: dict[str, Anchor] = field(default_factory=dict)
    """Anchors of the other journals of the run, by their names."""


@dataclass(frozen=True, kw_only=True)
class EvaluationStarted(Row):
    """A stand-alone evaluation of checkpoints of a run started."""

    run_id: RunId
    panel: str
    panel_id: str
    panel_fields: dict[str, Any]
    checkpoints: list[str]
    """The scored checkpoints of this run."""
    all_checkpoints: Positive | None = None
    """Number of the scored checkpoints of all runs; ``None`` if unknown."""
    device: str
    versions: dict[str, str]
    code_sha256: dict[str, str] = field(default_factory=dict)
    """As in :class:`RunDeclared`, at the time of the evaluation."""
    scoring_code: dict[str, str] | None = None
    """As in :class:`RunDeclared`, at the time of the evaluation."""
    host: str
    pid: Count
    wall_ns: Count
    anchors: dict[str, Anchor] = field(default_factory=dict)
    """Anchors of the other journals of the run, by their names."""

    def __post_init__(self) -> None:
        """Check the number of checkpoints.

        Raises:
            ValueError: If the run has more scored checkpoints than all runs together.
        """
        if self.all_checkpoints is not None and self.all_checkpoints < len(self.checkpoints):
            raise ValueError(f"all_checkpoints is {self.all_checkpoints}, and {len(self.checkpoints)} are named")


@dataclass(frozen=True, kw_only=True)
class EvaluationEnded(AttemptEnded):
    """How a stand-alone evaluation ended."""
