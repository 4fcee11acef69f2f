"""A case of the benchmark ``coverage``: something that the product prints, where the truth is known."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.random import Generator

from ledger_lab.ledger.costs.few_runs import lower_bound

_SURE = 1 - 1e-4
"""Confidence at which the simulation must refute what is promised, before a case counts as wrong."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """An interval, or a claim, that the product prints about a distribution whose truth is known."""

    figure: str
    """What is printed, such as ``interval of a proven policy``."""
    about: str
    """The distribution."""
    n: int
    """Runs (of a side), or episodes of a panel."""
    simulate: Callable[[Generator, int], tuple[int, int]]
    """Simulates so many reports by the product's own functions, and returns how many of them printed it, and how many
    of these were wrong: an interval that does not hold the truth, a false claim. :func:`one_by_one` makes it from a
    function of one report."""
    allowed: float = 0.05
    """Highest share of wrong ones that the product promises."""
    times: float = 1.0
    """Multiple of the usual number of simulations; less than 1 for a slow case."""
    stream: str = ""
    """Name of the random numbers; that of the case if empty. Cases by :func:`of_the_same` share one."""

    @property
    def numbers(self) -> str:
        """Name of the random numbers of the case."""
        return self.stream or f"{self.figure}/{self.about}/{self.n}"

    def examine(self, trials: int, seed: int) -> Found:
        """Simulate the case. Its random numbers depend on :attr:`numbers` and the seed alone.

        Args:
            trials: Usual number of simulations.
            seed: Seed of the benchmark.
        """
        stream = np.random.default_rng([seed, zlib.crc32(self.numbers.encode())])
        simulated = max(1, round(self.times * trials))
        printed, wrong = self.simulate(stream, simulated)
        return Found(
            figure=self.figure,
            about=self.about,
            n=self.n,
            allowed=self.allowed,
            trials=simulated,
            printed=printed,
            wrong=wrong,
        )


@dataclass(frozen=True, kw_only=True)
class Found:
    """How often the product was wrong in one case."""

    figure: str
    about: str
    n: int
    allowed: float
    """Highest share of wrong ones that the product promises."""
    trials: int
    printed: int
    """Trials in which the product printed the figure; 0 where it declines to."""
    wrong: int

    @property
    def share(self) -> float | None:
        """Share of the printed ones that were wrong; ``None`` if nothing was printed."""
        return self.wrong / self.printed if self.printed else None

    @property
    def error(self) -> float | None:
        """Standard error of :attr:`share` due to the finite number of simulations."""
        share = self.share
        return None if share is None else math.sqrt(share * (1 - share) / self.printed)

    @property
    def holds(self) -> bool:
        """Whether the simulation agrees with what is promised."""
        return not self.printed or lower_bound(self.wrong, self.printed, _SURE) <= self.allowed


def one_by_one(report: Callable[[Generator], bool | None]) -> Callable[[Generator, int], tuple[int, int]]:
    """Return a function that simulates many reports, from one that simulates a single report.

    Args:
        report: Returns whether the report was right; ``None`` if it did not print the figure.
    """

    def simulate(generator: Generator, trials: int) -> tuple[int, int]:
        right = [each for each in (report(generator) for _ in range(trials)) if each is not None]
        return len(right), len(right) - sum(right)

    return simulate


def of_the_same[K](
    report: Callable[[Generator], Mapping[K, bool | None]], figures: Iterable[K]
) -> dict[K, Callable[[Generator, int], tuple[int, int]]]:
    """As :func:`one_by_one`, for several figures of the same reports, which are simulated only once.

    Args:
        report: Returns for each figure what :func:`one_by_one` expects.
        figures: The figures.

    Returns:
        What simulates each figure. The cases must have the same :attr:`Case.stream` and number of simulations.
    """

    @cache
    def reports(seed: int, trials: int) -> list[Mapping[K, bool | None]]:
        generator = np.random.default_rng(seed)
        return [report(generator) for _ in range(trials)]

    def simulation(figure: K) -> Callable[[Generator, int], tuple[int, int]]:
        def simulate(generator: Generator, trials: int) -> tuple[int, int]:
            found = [each[figure] for each in reports(int(generator.integers(2**63)), trials)]
            right = [each for each in found if each is not None]
            return len(right), len(right) - sum(right)

        return simulate

    return {figure: simulation(figure) for figure in figures}


def is_within(truth: float, interval: tuple[float, float] | None) -> bool | None:
    """Tell whether an interval holds the truth; ``None`` if there is no interval."""
    return None if interval is None else interval[0] <= truth <= interval[1]
