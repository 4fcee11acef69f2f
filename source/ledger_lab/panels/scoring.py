"""Scores any number of policies on a panel, in one simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ledger_lab.ledger import Outcomes
from ledger_lab.panels.policy import Policy
from ledger_lab.panels.slots import HeldOutSlots


@dataclass(frozen=True)
class Score:
    """The outcomes of one policy's episodes, and whether they are valid."""

    outcomes: Outcomes
    invalid: str | None
    """Why the outcomes prove nothing; ``None`` if they are valid."""
    starts: dict[str, str] | None
    """Hashes of what the episodes started with, see :meth:`ledger_lab.panels.slots.HeldOutSlots.starts`."""


def score_policies(
    slots: HeldOutSlots, policies: Sequence[Policy], on_step: Callable[[], None] = lambda: None
) -> list[Score]:
    """Run every episode of a panel exactly once with every policy.

    If the slots have room for only some of the policies, the remaining policies are scored in further rounds.

    Args:
        slots: All slots of an environment, attached and reset.
        policies: Deterministic policies.
        on_step: Called after each step.

    Returns:
        The score of each policy.
    """
    no_training_actions = torch.zeros(slots.first, slots.action_count)
    scores: list[Score] = []
    with torch.inference_mode():
        for first in range(0, len(policies), slots.places):
            slots.begin(policies[first : first + slots.places])
            while not slots.idle:
                slots.step(no_training_actions)
                on_step()
            scores += [
                Score(outcomes, slots.invalid(outcomes), slots.starts(place))
                for place, outcomes in enumerate(slots.outcomes())
            ]
    return scores
