"""Cases of scaling laws and of the gradient noise scale."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

from numpy.random import Generator

from benchmarks.coverage.case import Case, is_within, one_by_one
from benchmarks.scaling_fits import batch_of, gradients_of, rate_of
from ledger_lab.studies.scaling.laws import Figure, Law, RateFit

_SEEDS = (2, 3, 5, 10)
"""Runs of each size."""
_CONTENTION, _COHERENCY = 0.05, 0.05
_SIZES = (1, 2, 4)
_SPREAD = 0.1
"""Standard deviation of the logarithm of a rate."""


def _figure(
    estimate: Callable[[Generator], Figure | None], truth: float
) -> Callable[[Generator, int], tuple[int, int]]:
    """Simulate the interval of a figure."""

    def report(generator: Generator) -> bool | None:
        figure = estimate(generator)
        return None if figure is None else is_within(truth, figure.interval)

    return one_by_one(report)


def _at(processes: int) -> Callable[[RateFit], Figure | None]:
    """Return a function that reads a predicted rate; it returns ``None`` where a fit predicts nothing."""

    def read(fit: RateFit) -> Figure | None:
        try:
            return fit.at(processes)
        except ValueError:
            return None

    return read


def _cases() -> Iterator[Case]:
    """Yield all cases."""
    largest = _SIZES[-1]
    rate = 1000.0 * largest / (1 + _CONTENTION * (largest - 1))
    beyond = 1000.0 * 2 * largest / (1 + _COHERENCY * 2 * largest * (2 * largest - 1))
    for seeds in _SEEDS:
        sizes = [*_SIZES] * seeds
        about = f"Amdahl's law, {len(_SIZES)} sizes, spread {_SPREAD:.0%}"
        right: dict[str, tuple[Callable[[RateFit], Figure | None], float]] = {
            "contention of a scaling law": (lambda fit: fit.contention, _CONTENTION),
            "rate of the largest size by a scaling law": (_at(largest), rate),
        }
        for figure, (read, truth) in right.items():
            simulate = _figure(rate_of(Law.AMDAHL, sizes, _CONTENTION, 0.0, _SPREAD, read), truth)
            yield Case(figure=figure, about=about, n=seeds, simulate=simulate, times=0.2)
        yield Case(
            figure="rate of twice the largest size by a scaling law",
            about=f"{about}, but coherency in place of contention",
            n=seeds,
            simulate=_figure(rate_of(Law.AMDAHL, sizes, 0.0, _COHERENCY, _SPREAD, _at(2 * largest)), beyond),
            times=0.2,
        )
        yield Case(
            figure="critical batch",
            about="5 batches, spread 30%",
            n=seeds,
            simulate=_figure(batch_of(5000.0, 0.3, math.inf, lambda fit: fit.critical_batch, seeds), 5000.0),
            times=0.2,
        )
    for processes, iterations in itertools.product((2, 8), (5, 10, 100)):
        yield Case(
            figure="gradient noise scale",
            about=f"{processes} processes; n: iterations",
            n=iterations,
            simulate=_figure(gradients_of(1000.0, processes, iterations=iterations), 1000.0),
            times=0.02 if iterations == 100 else 0.2,
        )


CASES = tuple(_cases())
