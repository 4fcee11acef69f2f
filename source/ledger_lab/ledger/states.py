"""Rows about the learner's parameters, and about the states that a training is resumed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ledger_lab.ledger.row import Amount, Count, Positive, Row


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
