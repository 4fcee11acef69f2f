"""Cases of costs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from numpy.random import Generator

from benchmarks.cost_interval import Scenario
from benchmarks.coverage.case import Case, is_within, one_by_one
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS, cost_interval


def _cost(scenario: Scenario) -> Callable[[Generator, int], tuple[int, int]]:
    """Simulate the interval of the cost per target-reaching checkpoint."""

    def report(generator: Generator) -> bool | None:
        runs = scenario.draw(generator)
        if len(runs) < FEWEST_RUNS or not any(reached for _, reached in runs):
            return None
        return is_within(scenario.true_usd, cost_interval(runs, seed=int(generator.integers(2**31))))

    return one_by_one(report)


def _cases() -> Iterator[Case]:
    """Yield all cases."""
    for runs, rate in itertools.product((2, 3, 5, 10), (0.8, 1.0)):
        scenario = Scenario(runs=runs, rate=rate, spread=0.3, failure_usd=1.0, crashes=False)
        about = f"lognormal, spread 30 %, {rate:.0%} of the runs succeed"
        yield Case(figure="cost per target-reaching checkpoint", about=about, n=runs, simulate=_cost(scenario))


CASES = tuple(_cases())
