"""The closed list of row kinds.

A row is a frozen dataclass; its class name is its kind. Durations are integers in nanoseconds, so that phases sum to
wall-clock exactly. A figure that was not measured is ``None``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self

HORIZON, NON_FINITE, CAPACITY = "horizon", "non_finite", "capacity"
"""How an episode can end besides by a termination term: it lasted, its figures are no numbers, or the physics engine
ran out of room for its contacts or constraints."""


class Status(StrEnum):
    """How an attempt or an evaluation ended."""

    COMPLETED = "completed"
    """All work was done; the target, if there was one, was not reached."""
    TARGET_REACHED = "target_reached"
    """A checkpoint reached the held-out target."""
    INTERRUPTED = "interrupted"
    """The user pressed Ctrl-C."""
    PREEMPTED = "preempted"
    """The system asked the process to end (SIGTERM)."""
    CRASHED = "crashed"
    """An exception ended it."""
    OUT_OF_MEMORY = "out_of_memory"
    """Host or device memory ran out."""
    NON_FINITE = "non_finite"
    """NaN or infinity in observations, rewards or losses."""
    INVALID = "invalid"
    """Whatever was judged is no proof of anything: the physics engine dropped contacts or constraints."""
    RUNNING = "running"
    """No end is written yet; only the reader gives this status."""
    LOST = "lost"
    """No end was ever written; only the reader gives this status."""

    @property
    def failed(self) -> bool:
        """Whether the work was left unfinished."""
        return self not in (Status.COMPLETED, Status.TARGET_REACHED, Status.RUNNING)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One immutable record of the ledger."""

    DURABLE: ClassVar[bool] = True
    """Whether the row is on disk before the program goes on; telemetry may be batched by the system."""

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
    """What a run is going to do, written before anything is spent."""

    run_id: str
    cohort: str | None
    task: str
    rl_library: str
    experiment: str
    overrides: list[str]
    """The Hydra overrides of the command line, which rebuild the configurations together with the task."""
    seed: int
    device: str
    num_envs: int
    """Environments per process."""
    world_size: int
    """Processes."""
    max_iterations: int
    horizon: int
    """Environment steps per iteration and environment."""
    epochs: int
    minibatches: int
    panel: str
    panel_id: str
    panel_fields: dict[str, Any]
    """What the panel's id is the hash of, so that a refusal to compare can name the difference."""
    target_success: float
    held_out_slots: int
    """Slots beside the training environments in which policies are judged while training goes on; 0 for none."""
    eval_every: int | None
    """Iterations between two judged policies; ``None`` judges back to back."""
    stop_at_target: bool
    error_budget: float
    """Probability that the run confirms a policy below the target."""
    physics: str
    timing: Literal["host", "synchronized"]
    price: dict[str, Any]
    """The price entry as it stood at the launch."""
    config_sha256: dict[str, str]
    versions: dict[str, str]
    git: dict[str, Any]
    hardware: dict[str, Any]
    command: list[str]

    @property
    def env_steps_per_iteration(self) -> int:
        """Environment steps of all processes in one iteration."""
        return self.num_envs * self.horizon * self.world_size


@dataclass(frozen=True, kw_only=True)
class AttemptStarted(Row):
    """A process group began to work on a run."""

    run_id: str
    attempt: int
    rank: int
    pid: int
    host: str
    wall_ns: int
    """Age of the process when the row was written: its imports and the parsing of its request."""


@dataclass(frozen=True, kw_only=True)
class PhaseWindow(Row):
    """Where the time went since the last window. It is the heartbeat of an attempt, too."""

    DURABLE: ClassVar[bool] = False

    iteration: int | None
    """Iterations completed, or ``None`` outside the training loop."""
    env_steps: int
    """Environment steps of all processes so far."""
    phase_ns: dict[str, int]
    """Nanoseconds per phase since the last window; phases that took no time are left out."""
    wall_ns: int
    """Nanoseconds since the attempt's process started."""


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved(Row):
    """A policy is safely on disk."""

    path: str
    """Path below the run's directory."""
    sha256: str
    size_bytes: int
    iteration: int
    """Iterations completed when it was saved."""
    env_steps: int
    wall_ns: int


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """What became of every held-out episode, as columns of equal length."""

    cell: list[str]
    seed: list[int]
    success: list[bool]
    """Success at the end of the episode."""
    success_any: list[bool]
    """Success had the episode ended at its best moment."""
    steps: list[int]
    """Length of the episode in environment steps."""
    episode_return: list[float | None]
    """Undiscounted sum of rewards; ``None`` where it is not finite."""
    ended_by: list[str]
    """``horizon``, ``non_finite``, ``capacity`` or the name of the termination term that fired."""
    fingerprint: list[str]
    """Hash of every bit of the observations and rewards of the episode: equal where two episodes went the same way."""

    def __post_init__(self) -> None:
        """Refuse columns that do not describe each episode exactly once."""
        lengths = {len(getattr(self, field.name)) for field in fields(self)}
        if len(lengths) != 1:
            raise ValueError(f"outcome columns differ in length: {sorted(lengths)}")
        if len(set(zip(self.cell, self.seed, strict=True))) != len(self.seed):
            raise ValueError("an episode is counted twice")
        if any(value is not None and not math.isfinite(value) for value in self.episode_return):
            raise ValueError("a return that is not finite must be None")

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return len(self.success)

    @property
    def successes(self) -> int:
        """Number of successful episodes."""
        return sum(self.success)


@dataclass(frozen=True, kw_only=True)
class PanelResult(Row):
    """A checkpoint's score on every episode of a panel."""

    run_id: str
    checkpoint: str
    """Path below the run's directory."""
    checkpoint_sha256: str
    panel: str
    panel_id: str
    """Identity of the panel as it was taken; that of a confirmation has seeds of its own."""
    purpose: Literal["screening", "confirmation", "evaluation"]
    """Screening and confirmation belong to a run's verdict; an evaluation is made when somebody asks."""
    confirmation: int | None
    """Which confirmation of the run, from 1; the next one where this is a screening; ``None`` for an evaluation."""
    needed: int | None
    """Successes that the run's rule asks for here; ``None`` for an evaluation."""
    exactness: Literal["bitwise", "statistical"]
    device: str
    wall_ns: int
    """Age of the process when the last episode ended."""
    invalid: str | None
    """Why the score is no proof of anything; ``None`` if it is one."""
    outcomes: Outcomes

    @property
    def passes(self) -> bool:
        """Whether a screening or a confirmation reached the successes it needed."""
        return self.needed is not None and self.invalid is None and self.outcomes.successes >= self.needed

    @property
    def confirms(self) -> bool:
        """Whether this proves that the checkpoint reaches the target."""
        return self.purpose == "confirmation" and self.passes

    def __post_init__(self) -> None:
        """Restore the outcomes from plain values."""
        if isinstance(self.outcomes, dict):
            object.__setattr__(self, "outcomes", Outcomes(**self.outcomes))


@dataclass(frozen=True, kw_only=True)
class AttemptEnded(Row):
    """The one truth about how an attempt ended, written before shutdown."""

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
class EvaluationStarted(Row):
    """A stand-alone evaluation began to score checkpoints of a run."""

    run_id: str
    panel: str
    panel_id: str
    panel_fields: dict[str, Any]
    checkpoints: list[str]
    device: str
    versions: dict[str, str]
    host: str
    pid: int
    wall_ns: int


@dataclass(frozen=True, kw_only=True)
class EvaluationEnded(AttemptEnded):
    """The one truth about how a stand-alone evaluation ended."""


KINDS: dict[str, type[Row]] = {
    kind.__name__: kind
    for kind in (
        RunDeclared,
        AttemptStarted,
        PhaseWindow,
        CheckpointSaved,
        PanelResult,
        AttemptEnded,
        EvaluationStarted,
        EvaluationEnded,
    )
}
"""Every kind of row by its name."""
