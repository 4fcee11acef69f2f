"""Cases of the success of policies: intervals, confirmations, and comparisons of two policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.random import Generator

from benchmarks.coverage.case import Case, is_within, one_by_one
from ledger_lab.panels import compare_paired, wilson_interval

_EPISODES = (32, 256)
_SUCCESS = (0.5, 0.85, 0.9, 0.95, 0.99)


def _success(episodes: int, rate: float) -> Callable[[Generator, int], tuple[int, int]]:
    """Simulate the interval of a policy on a panel."""

    def simulate(generator: Generator, trials: int) -> tuple[int, int]:
        counts = np.bincount(generator.binomial(episodes, rate, trials), minlength=episodes + 1)
        missed = [not is_within(rate, wilson_interval(won, episodes)) for won in range(episodes + 1)]
        return trials, int(counts[missed].sum())

    return simulate


def _paired(episodes: int, rate: float, kept: float) -> Callable[[Generator, int], tuple[int, int]]:
    """Simulate the comparison of two equal policies, which share the outcomes of some episodes."""

    def report(generator: Generator) -> bool:
        first, second = generator.random((2, episodes)) < rate
        second = np.where(generator.random(episodes) < kept, first, second)
        return bool(is_within(0.0, compare_paired(first.tolist(), second.tolist()).interval))

    return one_by_one(report)


def _cases() -> Iterator[Case]:
    """Yield all cases."""
    for episodes in _EPISODES:
        for rate in _SUCCESS:
            yield Case(
                figure="success of a policy",
                about=f"true success {rate:.0%}",
                n=episodes,
                simulate=_success(episodes, rate),
                times=100,
            )
            for kept in (0.0, 0.7):
                yield Case(
                    figure="comparison of two policies on the same episodes",
                    about=f"both {rate:.0%}, {kept:.0%} of the outcomes in common",
                    n=episodes,
                    simulate=_paired(episodes, rate, kept),
                )


CASES = tuple(_cases())
