"""Rows of held-out scores, with the outcome of every episode of a panel."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from ledger_lab.ledger.row import Count, PathBelow, Positive, Row, RunId, Seed

HORIZON, NON_FINITE, CAPACITY, UNSTABLE = "horizon", "non_finite", "capacity", "unstable"
"""Ends of an episode other than a termination term: it reached its horizon, its numbers are not finite, the physics
engine ran out of room for contacts or constraints, or its physics became unstable."""


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """Outcomes of all held-out episodes, as columns of equal length."""

    cell: list[str]
    seed: list[Seed]
    success: list[bool]
    """Success at the end of the episode."""
    success_any: list[bool]
    """Success at the best moment of the episode."""
    steps: list[Count]
    """Length of the episode in environment steps."""
    episode_return: list[float | None]
    """Undiscounted sum of rewards; ``None`` where it is not finite."""
    ended_by: list[str]
    """``horizon``, ``non_finite``, ``capacity`` or the name of the termination term that fired."""
    fingerprint: list[str]
    """Hash of all observations of the episode; equal if two episodes are equal bit for bit. In rows without hashes of
    the starts, and in those of other frameworks, it may contain rewards, too."""

    def __post_init__(self) -> None:
        """Refuse columns that do not describe each episode exactly once."""
        lengths = set(map(len, vars(self).values()))
        if len(lengths) != 1:
            raise ValueError(f"outcome columns differ in length: {sorted(lengths)}")
        episodes = len(self.seed)
        if len(set(self.seed)) != episodes and len(set(zip(self.cell, self.seed, strict=True))) != episodes:
            raise ValueError("an episode is counted twice")
        returns = [*filter(None, self.episode_return)]
        # A finite sum has finite terms only; that of finite terms may overflow.
        if not math.isfinite(sum(returns)) and not all(map(math.isfinite, returns)):
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
class CapacityUsed(Row):
    """Peak use of the capacities of a physics engine over all physics steps of a simulation.

    A training writes one row at its end. An evaluation writes one per simulation, into the journals of all runs whose
    checkpoints it scores.
    """

    constraints: Count
    """Largest number of constraint rows in one slot."""
    constraint_capacity: Count
    """Constraint rows that each slot has room for (``njmax``)."""
    contacts: Count
    """Contacts of all slots together, or pairs of close shapes, whichever number is larger."""
    contact_capacity: Count
    """Contacts that all slots together have room for: ``nconmax`` times the number of slots. If Newton's own collision
    detection is used and its limit is smaller, that limit."""
    slots: Positive
    """Number of slots of the simulation, both training and held-out."""
    wall_ns: Count


@dataclass(frozen=True, kw_only=True)
class PanelResult(Row):
    """A checkpoint's score on every episode of a panel."""

    run_id: RunId
    checkpoint: PathBelow
    """Path below the run's directory."""
    checkpoint_sha256: str
    panel: str
    panel_id: str
    """Identity of the scored panel; a proof has seeds of its own, so another id."""
    purpose: Literal["check", "proof", "evaluation"]
    """Checks and proofs decide the verdict of a run. An evaluation is made by ``scripts/evaluate.py``."""
    proof: Positive | None
    """Number of the proof within the run, from 1. For a check, the number of the next proof; for an
    evaluation, ``None``."""
    extension: Count = 0
    """Number of the panel within its proof; 0 for the first panel, and for other purposes."""
    needed: Count | None
    """Successes that are needed to pass; ``None`` for an evaluation. Those of an extension take the successes of the
    panels before it into account."""
    exactness: Literal["bitwise", "statistical"]
    device: str
    wall_ns: Count
    """Age of the process when the last episode ended."""
    invalid: str | None
    """Why the score is invalid; ``None`` if it is valid."""
    changed_code: dict[str, str] = field(default_factory=dict)
    """Code that the score depends on and that differs from the code that its run declared, with the hashes of the code
    that it was scored with, by module. Empty if it is the same, or if the run declared no such hashes."""
    replayed: Count | None = None
    """Episodes that were replayed in other slots, and compared bit for bit; ``None`` if none were."""
    starts: dict[str, str] | None = None
    """Hashes of what the episodes started with (physical states, parameters, commands), by the name of the quantity;
    ``None`` if the simulation doesn't repeat episodes bit for bit."""
    outcomes: Outcomes

    def __post_init__(self) -> None:
        """Refuse a score without episodes.

        Raises:
            ValueError: If there are none.
        """
        if not self.outcomes.episodes:
            raise ValueError("a score has at least one episode")

    @property
    def passes(self) -> bool:
        """Whether a check or a proof reached the successes it needed."""
        return self.needed is not None and self.invalid is None and self.outcomes.successes >= self.needed

    @property
    def proves(self) -> bool:
        """Whether this result proves that the checkpoint reaches the target."""
        return self.purpose == "proof" and self.passes
