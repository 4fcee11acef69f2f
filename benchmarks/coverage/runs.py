"""Cases of times to the target: ratios of two cohorts, and shares of runs that reached the target."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.coverage.case import Case, is_within, one_by_one
from ledger_lab.ledger.costs.time_to_target import RunTime, time_curve
from ledger_lab.reports.compare import Outcome, compare_outcomes

type Times = NDArray[np.float64]
type Draw = Callable[[Generator, int], Times]
"""Draws so many times to the target."""

RUNS = (2, 3, 4, 5, 10)
SLOW = 0.4
"""Share of slow runs in :func:`two_kinds`."""


def _lognormal(generator: Generator, runs: int) -> Times:
    return np.exp(0.3 * generator.standard_normal(runs))


def _exponential(generator: Generator, runs: int) -> Times:
    return 1 + generator.exponential(size=runs)


def two_kinds(generator: Generator, runs: int) -> Times:
    """Draw times of quick and of slow runs."""
    return np.where(generator.random(runs) < SLOW, 10.0, 1.0) * np.exp(0.1 * generator.standard_normal(runs))


DRAWS: dict[str, Draw] = {
    "lognormal, spread 30 %": _lognormal,
    "exponential tail": _exponential,
    f"{SLOW:.0%} of the runs ten times as slow": two_kinds,
}


def _ratio(
    draw: Draw, runs: int, *, paired: bool, limit: float = np.inf
) -> Callable[[Generator, int], tuple[int, int]]:
    """Simulate the interval of the ratio of two equal cohorts, of which one gives up at a limit."""

    def report(generator: Generator) -> bool | None:
        common = draw(generator, runs) if paired else np.ones(runs)
        sides = [
            [
                Outcome(run_id=str(seed), seed=seed, reached_target=time <= most, seconds=min(time, most), usd=None)
                for seed, time in enumerate((common * draw(generator, runs)).tolist())
            ]
            for most in (limit, np.inf)
        ]
        interval = compare_outcomes(sides[0], sides[1], paired=paired, tested=False)[0].interval
        return None if interval is None else is_within(1.0, interval)

    return one_by_one(report)


def _share(draw: Draw, runs: int) -> Callable[[Generator, int], tuple[int, int]]:
    """Simulate the interval of the share of runs that reached the target by a time, if slow runs are often given up."""
    many = draw(np.random.default_rng(0), 100_000)
    given_up, asked = np.quantile(many, (0.4, 0.6))
    truth = float((many <= asked).mean())

    def report(generator: Generator) -> bool:
        times = draw(generator, runs)
        ends = np.where(generator.random(runs) < 0.7, given_up, np.inf)
        curve = time_curve(
            [
                RunTime(wall_s=min(time, end), to_target_s=time if time <= end else None)
                for time, end in zip(times.tolist(), ends.tolist(), strict=True)
            ]
        )
        last = int(np.searchsorted(curve.t, asked, side="right")) - 1
        return last < 0 or bool(is_within(truth, (curve.low[last], curve.high[last])))

    return one_by_one(report)


def _cases() -> Iterator[Case]:
    """Yield all cases."""
    for (name, draw), runs in itertools.product(DRAWS.items(), RUNS):
        for paired in (False, True):
            words = "paired" if paired else "not paired"
            yield Case(
                figure="ratio of two times",
                about=f"{name}, {words}",
                n=runs,
                simulate=_ratio(draw, runs, paired=paired),
            )
        limit = float(np.quantile(draw(np.random.default_rng(0), 100_000), 0.8))
        missed = _ratio(draw, runs, paired=False, limit=limit)
        yield Case(
            figure="ratio of two times", about=f"{name}, 20 % of one side miss the target", n=runs, simulate=missed
        )
        yield Case(
            figure="share of runs by a time", about=f"{name}, slow runs given up", n=runs, simulate=_share(draw, runs)
        )


CASES = tuple(_cases())
