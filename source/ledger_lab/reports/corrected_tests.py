"""Tests of several comparisons, corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.05
"""Largest p-value that shows a difference."""


@dataclass(frozen=True, kw_only=True)
class CorrectedTests:
    """P-values of one comparison among several."""

    time: float | None
    """Corrected p-value of the times to target; ``None`` if there is no test."""
    cost: float | None
    """Corrected p-value of the costs."""
    tests: int
    """Number of tests of all comparisons."""

    @property
    def time_words(self) -> str | None:
        """Why the times show no difference; ``None`` if they show one, or there is no test."""
        return self._words(self.time)

    @property
    def cost_words(self) -> str | None:
        """The same for the costs."""
        return self._words(self.cost)

    def _words(self, p_value: float | None) -> str | None:
        if p_value is None or p_value <= LEVEL:
            return None
        return f"p = {p_value:.2g}" + (f" with Holm's correction for {self.tests} tests" if self.tests > 1 else "")


def correct_for_all(raw: Sequence[tuple[float | None, float | None]]) -> list[CorrectedTests]:
    """Correct the p-values of several comparisons by Holm's method.

    The chance that any of the comparisons shows a difference where there is none is then at most :data:`LEVEL`.

    Args:
        raw: The p-values of the time and of the cost of each comparison; ``None`` where there is no test.
    """
    corrected = iter(holm([p_value for pair in raw for p_value in pair if p_value is not None]))
    tests = sum(p_value is not None for pair in raw for p_value in pair)
    found = []
    for pair in raw:
        time, cost = (None if p_value is None else next(corrected) for p_value in pair)
        found.append(CorrectedTests(time=time, cost=cost, tests=tests))
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values that are corrected for the number of tests (Holm 1979, Scand J Statist 6:65).

    Args:
        p_values: One p-value per test.

    Returns:
        The corrected p-values, in the same order, at most 1.
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = largest
    return corrected
