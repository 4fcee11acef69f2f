"""Cases of searches: what their ends claim about finalists."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.random import Generator

from benchmarks.coverage.case import Case, of_the_same
from ledger_lab.studies.search.ending import SealedRun, compare

_SEEDS = 10
"""Sealed seeds: the fewest that a search takes."""
_GAIN, _INTERVALS = "gain of a search", "intervals of a search"
_SPREAD = 0.3
_LONGEST = 4.0
"""Time of a training that misses the target ÷ median time of the others."""


def _runs(generator: Generator, hopeless: float) -> Mapping[int, SealedRun]:
    """Draw the trainings of a recipe."""
    times = np.exp(_SPREAD * generator.standard_normal(_SEEDS))
    misses = generator.random(_SEEDS) < hopeless
    return {
        seed: SealedRun(reached=not miss, bill=_LONGEST if miss else float(time))
        for seed, (time, miss) in enumerate(zip(times, misses, strict=True))
    }


def _end(finals: int, hopeless: float) -> dict[str, Callable[[Generator, int], tuple[int, int]]]:
    """Simulate the end of a search whose finalists are as good as the stock recipe: its claims and its intervals."""

    def report(generator: Generator) -> dict[str, bool | None]:
        stock, *others = (_runs(generator, hopeless) for _ in range(1 + finals))
        found = compare(stock, dict(enumerate(others, start=1)), bill=1.0)
        return {
            _GAIN: not any(each.is_better for each in found),
            _INTERVALS: all(each.ratio_low <= 1 <= each.ratio_high for each in found),
        }

    return of_the_same(report, (_GAIN, _INTERVALS))


def _cases() -> Iterator[Case]:
    """Yield all cases."""
    for finals, hopeless in itertools.product((1, 3), (0.0, 0.1, 0.3, 0.5)):
        about = f"{finals} finalists as good as the stock recipe, {hopeless:.0%} of the trainings hopeless"
        simulations = _end(finals, hopeless)
        for figure, allowed in ((_GAIN, 0.05), (_INTERVALS, 0.1)):
            yield Case(
                figure=figure, about=about, n=_SEEDS, simulate=simulations[figure], allowed=allowed, times=0.2,
                stream=f"search/{about}",
            )  # fmt: skip


CASES = tuple(_cases())
