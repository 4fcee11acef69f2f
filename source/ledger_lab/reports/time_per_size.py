"""Fits how a computation's time grows with its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TimePerSize:
    """A time as a function of size, ``fixed + per_item · size``, fitted to measurements."""

    fixed: float
    """Time that does not depend on size; at least 0."""
    per_item: float
    """Additional time per item; at least 0."""
    sizes: tuple[int, ...]
    """Sizes that were measured, in ascending order; at least two."""
    runs: int
    """Measurements."""
    residual: float
    """Largest deviation of a measurement from the fit, relative to the fit."""

    def at(self, size: int) -> float:
        """Return the fitted time of a size."""
        return self.fixed + self.per_item * size

    def growth(self, size: int, larger: int) -> float:
        """Return the relative growth of the time from one size to a larger size."""
        return self.at(larger) / self.at(size) - 1

    def saving(self, size: int, larger: int) -> float:
        """Return the relative fall of the time per item from one size to a larger size."""
        return 1 - (self.at(larger) / larger) / (self.at(size) / size)


def fit_time_per_size(measured: Sequence[tuple[int, float]]) -> TimePerSize | None:
    """Fit a time as a function of size by least squares, with no coefficient below 0.

    If the best line has a negative coefficient, that coefficient is set to 0 and the other is fitted alone, as times
    are never negative and never fall with size.

    Args:
        measured: Pairs of a size and its time, in any unit.

    Returns:
        The fit; ``None`` with fewer than two sizes, or with a size or a time that is not positive.
    """
    sizes = tuple(sorted({size for size, _ in measured}))
    if len(sizes) < 2 or any(size <= 0 or time <= 0 for size, time in measured):
        return None
    count = len(measured)
    mean_size = sum(size for size, _ in measured) / count
    mean_time = sum(time for _, time in measured) / count
    spread = sum((size - mean_size) ** 2 for size, _ in measured)
    per_item = sum((size - mean_size) * (time - mean_time) for size, time in measured) / spread
    fixed = mean_time - per_item * mean_size
    if per_item < 0:
        fixed, per_item = mean_time, 0.0
    elif fixed < 0:
        fixed, per_item = 0.0, sum(s * t for s, t in measured) / sum(s * s for s, _ in measured)
    residual = max(abs(time / (fixed + per_item * size) - 1) for size, time in measured)
    return TimePerSize(fixed=fixed, per_item=per_item, sizes=sizes, runs=count, residual=residual)
