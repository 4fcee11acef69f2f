"""The number of slots of a simulation."""

from __future__ import annotations

SLOTS_MULTIPLE = 64
"""The number of slots is a multiple of this number, so that every slot is computed by the same instructions.

On a CPU, torch computes a tensor with vector instructions. It computes the remainder of its rows with other
instructions, whose ``atan2`` differs in the last bit. A multiple leaves no remainder."""


def slots_in_all(training: int, held_out: int) -> int:
    """Return the number of slots of a simulation; with held-out slots, a multiple of :data:`SLOTS_MULTIPLE`.

    Args:
        training: Training slots.
        held_out: Held-out slots; 0 for none.
    """
    return training if held_out == 0 else -(-(training + held_out) // SLOTS_MULTIPLE) * SLOTS_MULTIPLE
