"""Scoring any number of policies on a panel in one pass of one simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ledger_lab.ledger import Outcomes
from ledger_lab.panels.policy import Policy
from ledger_lab.panels.slots import HeldOutSlots


@dataclass(frozen=True)
class Score:
    """What became of one policy's episodes."""

    outcomes: Outcomes
    invalid: str | None
    """Why they are no proof of anything; ``None`` if they are one."""


def score_policies(
    slots: HeldOutSlots, policies: Sequence[Policy], on_step: Callable[[], None] = lambda: None
) -> list[Score]:
    """Let every policy take every episode of a panel exactly once.

    Where there are too few places for all policies, the rest follow in further rounds.

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
            scores += [Score(outcomes, slots.invalid(outcomes)) for outcomes in slots.outcomes()]
    return scores
