"""Rows about attempts and evaluations: how they start, what a training does and saves, and how they end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import msgspec

from ledger_lab.ledger.row import Amount, Count, PathBelow, Positive, Row, RunId, Seed, require_shallow


class Event(StrEnum):
    """What can go wrong in a training."""

    meaning: str
    """The event in a few words."""

    def __new__(cls, name: str, meaning: str) -> Event:
        """Make an event from its name and its meaning."""
        event = str.__new__(cls, name)
        event._value_, event.meaning = name, meaning
        return event

    NON_FINITE = "non_finite", "a training metric is NaN or infinite"
    VALUE_LOSS_EXPLOSION = (
        "value_loss_explosion",
        "the value loss is many times larger than the squared returns",
    )
    ENTROPY_COLLAPSE = "entropy_collapse", "the policy stops exploring before it has learned the task"
    KL_OUT_OF_RANGE = "kl_out_of_range", "updates change the policy far too much, or not at all"
    GRADIENT_SPIKES = "gradient_spikes", "the gradient norm jumps repeatedly"
    SLOWDOWN = "slowdown", "the number of environment steps per second falls"
    HOST_MEMORY_GROWTH = "host_memory_growth", "host memory grows steadily"
    DEVICE_MEMORY_GROWTH = "device_memory_growth", "device memory grows steadily"
    TERMINATION_TAKEOVER = (
        "termination_takeover",
        "one termination ends nearly all training episodes, and held-out success does not rise",
    )
    REWARD_HACKING = "reward_hacking", "the training return rises while held-out success falls"
    NO_CONVERGENCE = (
        "no_convergence",
        "at the present pace, held-out success will not reach the target within max_iterations",
    )


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
    """The run used up its ``--limit_s`` before a policy was proven."""
    RUNNING = "running"
    """No end is written yet; only the reader uses this status."""
    LOST = "lost"
    """No end was ever written; only the reader uses this status."""

    @property
    def failed(self) -> bool:
        """Whether the work was left unfinished, other than by a limit that the run declared."""
        return self not in (Status.COMPLETED, Status.TARGET_REACHED, Status.LIMIT_REACHED, Status.RUNNING)


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
    """Nanoseconds since the Python of the attempt's process started."""
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
    """Memory that the replay memory of the saving process takes: of the device if there is an accelerator, unless the
    recipe holds it on the host; ``None`` without a replay memory, or if unknown."""
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
    exit_code: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**32)] | None
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
        """Check the number of checkpoints, and the fields of the panel.

        Raises:
            ValueError: If the run has more scored checkpoints than all runs together, or the fields are nested too
                deep.
        """
        require_shallow(self.panel_fields)
        if self.all_checkpoints is not None and self.all_checkpoints < len(self.checkpoints):
            raise ValueError(f"all_checkpoints is {self.all_checkpoints}, and {len(self.checkpoints)} are named")


@dataclass(frozen=True, kw_only=True)
class EvaluationEnded(AttemptEnded):
    """How a stand-alone evaluation ended."""


@dataclass(frozen=True, kw_only=True)
class LearnerHashed(Row):
    """Hash of the learner in one of several processes, just before the learners are compared.

    Each process writes its own row, so that readers can compare the hashes, too.
    """

    sha256: str
    """Hash of all names and values of parameters, normalizers and optimizer."""
    iteration: Count
    """Iterations completed."""
    wall_ns: Count


@dataclass(frozen=True, kw_only=True)
class GradientNorms(Row):
    """Gradients of one of several processes over a stretch of the training, before they were clipped.

    Each process writes its own row. Together, they tell the noise of the gradient.
    """

    DURABLE: ClassVar[bool] = False

    iteration: Count
    """Iterations completed at the end of the stretch."""
    steps: Positive
    """Gradient steps of the stretch."""
    own_square: Amount
    """Mean squared norm of this process's gradient."""
    average_square: Amount
    """Mean squared norm of the average gradient of all processes."""


STATE_FILE = "training_state.pt"
"""Name of the file, in the run's directory, that a training is resumed from."""


@dataclass(frozen=True, kw_only=True)
class StateSaved(Row):
    """A new state is complete on disk, and has replaced the last state in :data:`STATE_FILE`."""

    sha256: str
    size_bytes: Count
    iteration: Count
    """Iterations completed."""
    env_steps: Count
    wall_ns: Count
    replay_bytes: Count | None = None
    """Size of the replay memory in it [B]; ``None`` if no replay memory was saved."""


@dataclass(frozen=True, kw_only=True)
class StateRestored(Row):
    """An attempt resumes from a state. Iterations after that state are lost, and trained again."""

    sha256: str
    attempt: Positive
    """Number of the attempt that saved it."""
    saved_wall_ns: Count
    """Age of that attempt when it saved the state."""
    iteration: Count
    env_steps: Count
    reasons: list[str]
    """What differs from an uninterrupted training, besides that episodes begin anew."""
    wall_ns: Count
