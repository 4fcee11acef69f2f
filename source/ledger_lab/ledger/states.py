"""Rows about what has been learned, and about what a training goes on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ledger_lab.ledger.rows import Count, Positive, Row


@dataclass(frozen=True, kw_only=True)
class LearnerHashed(Row):
    """What one of several processes has learned, just before it is compared with what the others have.

    Each process writes its own, so that who reads the journals can compare them again.
    """

    sha256: str
    """Of all names and numbers of its parameters, normalizers and optimizer."""
    iteration: Count
    """Iterations completed."""
    wall_ns: Count


STATE_FILE = "training_state.pt"
"""What the file is called, in the run's directory, that a training is resumed from."""


@dataclass(frozen=True, kw_only=True)
class StateSaved(Row):
    """What the training goes on from when it is resumed is whole on disk, and takes the place of :data:`STATE_FILE`."""

    sha256: str
    size_bytes: Count
    iteration: Count
    """Iterations completed."""
    env_steps: Count
    exactness: Literal["bitwise", "statistical"]
    """How well a training that goes on from it can repeat one that was never interrupted."""
    wall_ns: Count


@dataclass(frozen=True, kw_only=True)
class StateRestored(Row):
    """An attempt goes on from a state. What was trained after that had been saved is lost, and trained again."""

    sha256: str
    attempt: Positive
    """The attempt that saved it."""
    saved_wall_ns: Count
    """Age of that attempt then."""
    iteration: Count
    env_steps: Count
    exactness: Literal["bitwise", "statistical"]
    """How well the training repeats one that was never interrupted: with fresh episodes, statistically."""
    reasons: list[str]
    """Why it is not bitwise."""
    wall_ns: Count
