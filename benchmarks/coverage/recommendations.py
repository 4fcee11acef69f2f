"""Cases of ``report.py recommend``: medians, costs, and the figures of the best of several machines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import cache

import numpy as np
from numpy.random import Generator

from benchmarks.coverage.case import Case, is_within, of_the_same
from benchmarks.coverage.runs import DRAWS, RUNS, SLOW, Draw, two_kinds
from benchmarks.scaled_runs import simulated_run
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.studies.recommend.recommendation import Choice, Goal, Limits, recommend
from ledger_lab.studies.scaling.points import Identity, ScaledRun

_MACHINES = (1, 20)
_GIVEN_UP = 0.8
"""Quantile of the times at which some runs are given up."""


@cache
def _price(machine: int) -> Price:
    return Price(
        instance=f"machine-{machine}", market="custom", accelerators=1, billing_granularity_s=1e-3,
        billing_minimum_s=0.0, usd_per_hour=36.0, source="a simulation", date="2026-01-01",
    )  # fmt: skip


def _run(machine: int, seed: int, time_s: float, limit_s: float) -> ScaledRun:
    """Return a run that is given up at a limit; a second costs a cent."""
    wall_s, reached = min(time_s, limit_s), time_s <= limit_s
    identity = Identity(
        time_s=wall_s, start_up_s=0.0, steps=round(1000 * wall_s), training_s=wall_s, scoring_s=0.0,
        interruptions_s=0.0,
    )  # fmt: skip
    return simulated_run(f"{machine}-{seed}", _price(machine), identity, reached=reached, wall_s=wall_s)


def _chosen(
    draw: Draw, runs: int, machines: int, limit_s: float, truths: Mapping[Goal, float]
) -> dict[Goal, Callable[[Generator, int], tuple[int, int]]]:
    """Simulate the figures of the best of several machines, which are all equal."""

    def report(generator: Generator) -> dict[Goal, bool | None]:
        own = [
            _run(machine, seed, time_s, limit_s)
            for machine in range(machines)
            for seed, time_s in enumerate(draw(generator, runs).tolist())
        ]
        return {each.goal: _holds(each, truths[each.goal]) for each in recommend(own, Limits()).choices}

    return of_the_same(report, truths)


def _holds(choice: Choice, truth: float) -> bool | None:
    """Tell whether the interval of a choice holds the truth; ``None`` if it is not printed."""
    figure = None if choice.option is None else choice.goal.of(choice.option)
    return None if figure is None else is_within(truth, figure.interval)


def _cases() -> Iterator[Case]:
    """Yield all cases.

    An interval of a cost cannot allow for slow runs if none of a machine's runs is slow. That of the median of five
    runs holds in 94 %.
    """
    for (name, draw), runs, machines in itertools.product(DRAWS.items(), (*RUNS, 20), _MACHINES):
        if machines > 1 and runs != FEWEST_RUNS:  # slow, and the fewest runs that are ranked are the hardest
            continue
        many = draw(np.random.default_rng(0), 400_000)
        given_up = float(np.quantile(many, _GIVEN_UP))
        of = "one machine" if machines == 1 else f"best of {machines} equal machines"
        times = 0.01 if runs < FEWEST_RUNS else 0.1 if machines == 1 else 0.04  # slow, and the first are never printed
        for limit_s, end in ((np.inf, ""), (given_up, ", slow runs interrupted")):
            ended = np.minimum(many, limit_s)
            usd = float(ended.sum() / (many <= limit_s).sum()) / 100
            unseen = 1 - (1 - (1 - SLOW) ** runs) ** machines if draw is two_kinds else 0.0
            truths = {Goal.TIME: float(np.median(many)), Goal.MONEY: usd}
            simulations = _chosen(draw, runs, machines, limit_s, truths)
            about = f"{name}, {of}{end}"
            for goal, figure, allowed in (
                (Goal.TIME, "recommended: median time", max(0.05, 0.5 ** (runs - 1))),
                (Goal.MONEY, "recommended: cost", 0.05 + 0.95 * unseen),
            ):
                yield Case(
                    figure=figure, about=about, n=runs, simulate=simulations[goal], allowed=allowed, times=times,
                    stream=f"recommended/{about}/{runs}",
                )  # fmt: skip


CASES = tuple(_cases())
