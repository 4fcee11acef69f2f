"""What the detectors look at, and the robust arithmetic that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

_MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution (Hampel 1974, JASA 69:383)."""


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One iteration of a training."""

    iterations: int
    """Iterations completed."""
    env_steps: int
    """Environment steps of this iteration, over all processes."""
    figures: Mapping[str, float]
    """Figures by the names of :data:`ledger_lab.ledger.FIGURES`; what was not measured is left out."""
    phase_ns: Mapping[str, int]
    """Nanoseconds per phase in this iteration."""
    host_memory_bytes: int | None = None
    """Resident memory of the process at its end."""
    device_memory_bytes: int | None = None
    """Device memory that the process holds at its end."""


class Spell:
    """Tells a trouble once: when it has lasted, and again only after it has been over for as long as it takes."""

    def __init__(self, patience: int, calm: int) -> None:
        """Begin well.

        Args:
            patience: Consecutive looks with trouble before an event is reported.
            calm: Looks in a row without it before it can be told again.
        """
        self._patience, self._calm = patience, calm
        self._troubled = self._well = 0
        self._told = False

    @property
    def told(self) -> bool:
        """Whether it was told, and is not over yet."""
        return self._told

    def begins(self, trouble: bool, at_once: bool = False) -> bool:
        """Take one look.

        Args:
            trouble: Whether there is trouble now.
            at_once: Whether it is bad enough to be told without patience.

        Returns:
            Whether to tell it now.
        """
        self._troubled = self._troubled + 1 if trouble else 0
        self._well = 0 if trouble else self._well + 1
        if self._well >= self._calm:
            self._told = False
        if self._told or not trouble or (self._troubled < self._patience and not at_once):
            return False
        self._told = True
        return True


def spread(values: list[float]) -> float:
    """Return a robust standard deviation: the scaled median absolute deviation.

    Args:
        values: At least one value.
    """
    middle = median(values)
    return _MAD_TO_SIGMA * median(abs(value - middle) for value in values)
