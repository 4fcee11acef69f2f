"""The rows of held-out scores: what became of every episode of a panel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ledger_lab.ledger.rows import Count, PathBelow, Positive, Row, RunId, Seed

HORIZON, NON_FINITE, CAPACITY = "horizon", "non_finite", "capacity"
"""How an episode can end besides by a termination term: it lasted, its figures are no numbers, or the physics engine
ran out of room for its contacts or constraints."""


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """What became of every held-out episode, as columns of equal length."""

    cell: list[str]
    seed: list[Seed]
    success: list[bool]
    """Success at the end of the episode."""
    success_any: list[bool]
    """Success had the episode ended at its best moment."""
    steps: list[Count]
    """Length of the episode in environment steps."""
    episode_return: list[float | None]
    """Undiscounted sum of rewards; ``None`` where it is not finite."""
    ended_by: list[str]
    """``horizon``, ``non_finite``, ``capacity`` or the name of the termination term that fired."""
    fingerprint: list[str]
    """Hash of every bit of the observations and rewards of the episode: equal where two episodes went the same way."""

    def __post_init__(self) -> None:
        """Refuse columns that do not describe each episode exactly once."""
        lengths = set(map(len, vars(self).values()))
        if len(lengths) != 1:
            raise ValueError(f"outcome columns differ in length: {sorted(lengths)}")
        episodes = len(self.seed)
        if len(set(self.seed)) != episodes and len(set(zip(self.cell, self.seed, strict=True))) != episodes:
            raise ValueError("an episode is counted twice")
        if not all(map(math.isfinite, filter(None, self.episode_return))):
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
    """The most that a simulation needed of what its physics engine has room for, at any physics step of its life.

    A training writes one when it comes to its end, an evaluation one per simulation, into the journals of all
    runs whose checkpoints are scored in it.
    """

    constraints: Count
    """Constraint rows of the slot that had most of them."""
    constraint_capacity: Count
    """Constraint rows that each slot has room for (``njmax``)."""
    contacts: Count
    """Contacts of all slots together, or pairs of shapes that came close, whichever were more."""
    contact_capacity: Count
    """Contacts that all slots together have room for: ``nconmax`` times their number, or what Newton's own collisions
    hold, where they are used and that is less."""
    slots: Count
    """Slots of the simulation, training and held-out ones."""
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
    """Identity of the panel as it was taken; that of a confirmation has seeds of its own."""
    purpose: Literal["screening", "confirmation", "evaluation"]
    """Screening and confirmation belong to a run's verdict; an evaluation is made when somebody asks."""
    confirmation: Positive | None
    """Which confirmation of the run, from 1; the next one where this is a screening; ``None`` for an evaluation."""
    needed: Count | None
    """Successes that the run's rule asks for here; ``None`` for an evaluation."""
    exactness: Literal["bitwise", "statistical"]
    device: str
    wall_ns: Count
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
