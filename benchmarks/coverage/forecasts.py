"""Cases of forecasts: the time that a run has left, and what a study costs in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from numpy.random import Generator

from benchmarks.coverage.case import Case
from benchmarks.time_left import ForecastScenario, Scenario, cover, cover_forecast


def _time_left(scenario: Scenario) -> Callable[[Generator, int], tuple[int, int]]:
    """Simulate the interval of the time that a run has left."""

    def simulate(generator: Generator, trials: int) -> tuple[int, int]:
        found = cover(scenario, trials, generator)
        return found.looks, found.looks - found.covered

    return simulate


def _forecast(scenario: ForecastScenario) -> Callable[[Generator, int], tuple[int, int]]:
    """Simulate the interval of the cost of a study."""

    def simulate(generator: Generator, trials: int) -> tuple[int, int]:
        found = cover_forecast(scenario, trials, generator)
        return found.studies, found.studies - found.covered

    return simulate


def _cases() -> Iterator[Case]:
    """Yield all cases."""
    for earlier in (2, 3, 5, 10, 40):
        for moment in (0.0, 1.0):
            left = Scenario(earlier=earlier, spread=0.6, limit_s=6000.0, crashes=0.3, moment=moment)
            about = f"lognormal, spread 60 %, seen after {moment:g} × the median time"
            yield Case(
                figure="time that a run has left", about=about, n=earlier, simulate=_time_left(left), allowed=0.2,
                times=0.5,
            )  # fmt: skip
    for ended in (5, 10):
        study = ForecastScenario(ended=ended, missing=5, spread=0.6, misses=0.0)
        yield Case(
            figure="forecast of the cost of a study", about="lognormal, spread 60 %, 5 trainings to come", n=ended,
            simulate=_forecast(study), allowed=0.25,
        )  # fmt: skip


CASES = tuple(_cases())
