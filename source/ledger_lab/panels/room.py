"""How many slots a simulation has."""

from __future__ import annotations

SLOTS_MULTIPLE = 64
"""What is left over when torch's vector instructions have gone through a tensor on a CPU is computed by other ones,
whose ``atan2`` differs in the last bit. With whole multiples nothing is left over."""


def slots_in_all(training: int, held_out: int) -> int:
    """Return the slots of a simulation: with held-out ones, filled up to a multiple of :data:`SLOTS_MULTIPLE`.

    Args:
        training: Training slots.
        held_out: Held-out slots; 0 for none.
    """
    return training if held_out == 0 else -(-(training + held_out) // SLOTS_MULTIPLE) * SLOTS_MULTIPLE
