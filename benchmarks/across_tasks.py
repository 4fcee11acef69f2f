"""``python -m benchmarks across_tasks``: how often intervals of figures over several tasks hold the true figure."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.studies.across_tasks import interquartile_mean, probability_of_improvement, stratified_interval
from ledger_lab.units import MISSING, percent

_TASKS = (2, 5)
_RUNS = (5, 10)
_MISSES = (0.0, 0.2)
_SHIFTS = (0.0, 0.4)
_SPREAD = 0.3
_LARGE = 200_000
"""Runs per task from which the true figures are computed."""

Scores = list[NDArray[np.float64]]
FIGURES: dict[str, tuple[Callable[..., NDArray[np.float64]], bool]] = {
    "interquartile mean": (interquartile_mean, False),
    "probability of improvement": (probability_of_improvement, True),
}
"""Figures whose intervals come from a bootstrap, and whether they compare two arms."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Two arms whose true speeds are known."""

    tasks: int
    runs: int
    miss_rate: float
    """Share of runs that miss the target; their speed is 0."""
    shift: float
    """Difference of the mean logarithm of the speed between both arms."""

    def draw(self, generator: Generator, runs: int, shift: float) -> Scores:
        """Draw the speeds of an arm; each task is a little easier than the one before."""
        return [
            np.where(
                generator.random(runs) < self.miss_rate,
                0.0,
                np.minimum(1.0, np.exp(_SPREAD * generator.standard_normal(runs) + shift + 0.2 * task) / 3),
            )
            for task in range(self.tasks)
        ]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often the interval of a figure held the true figure."""

    scenario: Scenario
    figure: str
    true: float
    intervals: int
    """Intervals shown; there is none if all resamples are equal."""
    covered: int


def bench_across_tasks(argv: Sequence[str]) -> int:
    """Simulate arms over several tasks, and print how often the intervals hold the true figures.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks across_tasks",
        description="Simulate two arms over several tasks, and count how often the 95 % intervals that study.py shows "
        "hold the true interquartile mean and probability of improvement.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks across_tasks --studies 1000",
    )
    args = parse_simulation(parser, argv, count="--studies", what="Simulated studies per scenario", default=500)
    generator, console = np.random.default_rng(args.seed), make_console()
    scenarios = [
        Scenario(tasks=tasks, runs=runs, miss_rate=miss_rate, shift=shift)
        for tasks, runs, miss_rate, shift in itertools.product(_TASKS, _RUNS, _MISSES, _SHIFTS)
    ]
    found: list[Coverage] = []
    for scenario in with_progress(scenarios, console):
        found += _cover(scenario, args.studies, generator)
    table = Table("figure", "tasks", "runs", "covered", "shown in", box=None, pad_edge=False)
    for (name, tasks, runs), group in itertools.groupby(
        sorted(found, key=lambda each: (each.figure, each.scenario.tasks, each.scenario.runs)),
        lambda each: (each.figure, each.scenario.tasks, each.scenario.runs),
    ):
        own = list(group)
        cells = [
            f"{percent(min(shares))} to {percent(max(shares))}" if shares else MISSING
            for shares in (
                [each.covered / each.intervals for each in own if each.intervals],
                [each.intervals / args.studies for each in own],
            )
        ]
        table.add_row(name, str(tasks), str(runs), *cells)
    console.print(table)
    write_findings(args.json, seed=args.seed, coverages=[asdict(each) for each in found])
    return 0


def _cover(scenario: Scenario, studies: int, generator: Generator) -> list[Coverage]:
    """Simulate studies of one scenario."""
    large = [scenario.draw(generator, _LARGE, shift) for shift in (scenario.shift, 0.0)]
    true = {
        name: _true(figure, large) if paired else float(figure(large[0])) for name, (figure, paired) in FIGURES.items()
    }
    intervals, covered = dict.fromkeys(FIGURES, 0), dict.fromkeys(FIGURES, 0)
    for seed in range(studies):
        arms = [scenario.draw(generator, scenario.runs, shift) for shift in (scenario.shift, 0.0)]
        for name, (figure, paired) in FIGURES.items():
            interval = stratified_interval(figure, *(arms if paired else arms[:1]), seed=seed)
            if interval is not None:
                intervals[name] += 1
                covered[name] += interval[0] <= true[name] <= interval[1]
    return [
        Coverage(scenario=scenario, figure=name, true=true[name], intervals=intervals[name], covered=covered[name])
        for name in FIGURES
    ]


def _true(figure: Callable[..., NDArray[np.float64]], arms: list[Scores]) -> float:
    """Return a figure of two arms, from pairs of runs: all pairs of so many runs do not fit into memory."""
    pairs = [[runs[:, None] for runs in scores] for scores in arms]
    return float(figure(*pairs).mean())
