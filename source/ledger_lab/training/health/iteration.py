"""Data of an iteration for the detectors, and their shared robust statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

_MAD_TO_SIGMA = 1.4826
"""Factor from the median absolute deviation to the standard deviation of a normal distribution (Hampel 1974, JASA
69:383)."""


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One iteration of a training."""

    iterations: int
    """Iterations completed."""
    env_steps: int
    """Environment steps of this iteration, over all processes."""
    figures: Mapping[str, float]
    """Figures by the names of :data:`ledger_lab.ledger.FIGURES`; figures that were not measured are left out."""
    phase_ns: Mapping[str, int]
    """Nanoseconds per phase in this iteration."""
    host_memory_bytes: int | None = None
    """Resident memory of the process at the end of the iteration [B]."""
    device_memory_bytes: int | None = None
    """Device memory of the process at the end of the iteration [B]."""
    endings: Mapping[str, int] | None = None
    """Training episodes that each termination ended in this iteration; ``None`` if they were not counted."""


class Debounce:
    """Decides when to report a problem: after it has lasted, and again only after it was gone for a while."""

    def __init__(self, patience: int, calm: int) -> None:
        """Start without a problem.

        Args:
            patience: Consecutive checks with the problem before an event is reported.
            calm: Consecutive checks without it before it can be reported again.
        """
        self._patience, self._calm = patience, calm
        self._troubled = self._well = 0
        self._told = False

    @property
    def reported(self) -> bool:
        """Whether the present problem was reported."""
        return self._told

    def should_report(self, trouble: bool, at_once: bool = False) -> bool:
        """Add one check.

        Args:
            trouble: Whether the problem is there now.
            at_once: Whether it is bad enough to be reported at once.

        Returns:
            Whether to report it now.
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
