"""``python -m benchmarks time_left``: how often the intervals of the time left and of a study's forecast are right."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.random import Generator
from rich.table import Table

from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.ledger.costs.time_to_target import RunTime
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.reports.watch.progress import time_left
from ledger_lab.reports.watch.spend import add_up, further_trainings
from ledger_lab.units import percent

_RUNS = (2, 5, 12, 40)
_SPREADS = (0.2, 0.6)
_LIMITS_S = (1500.0, 6000.0)
_CRASHES = (0.0, 0.3)
_MOMENTS = (0.0, 0.5, 1.0)
_MEDIAN_S = 1000.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A cohort, of which some runs have ended, and one run has come so far."""

    earlier: int
    """Earlier runs."""
    spread: float
    """Standard deviation of the logarithm of the time to the target; its median is 1000 s."""
    limit_s: float
    """Time of a run until its last iteration [s]."""
    crashes: float
    """Share of the earlier runs that end at a moment that is uniform over the limit, if they have not ended before."""
    moment: float
    """Time after which the run is looked at ÷ the median time to the target."""

    def draw(self, generator: Generator, runs: int) -> list[RunTime]:
        """Draw the times of some runs."""
        to_target = _MEDIAN_S * np.exp(self.spread * generator.standard_normal(runs))
        ended = np.where(generator.random(runs) < self.crashes, generator.random(runs), 1.0) * self.limit_s
        return [
            RunTime(wall_s=float(min(t, end)), to_target_s=float(t) if t <= end else None)
            for t, end in zip(to_target, ended, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often the interval held the time that a run had left."""

    scenario: Scenario
    looks: int
    """Runs that were looked at."""
    intervals: int
    """Runs for which an interval was given; for the others, only an upper bound."""
    covered: int
    """Intervals and bounds that held."""
    median_width: float | None
    """Median width of the interval ÷ the median time to the target; ``None`` if there was none."""


@dataclass(frozen=True, kw_only=True)
class ForecastScenario:
    """A study of one arm, of which some trainings have ended."""

    ended: int
    missing: int
    spread: float
    """Standard deviation of the logarithm of the cost of a training."""
    misses: float
    """Share of the trainings that miss the target, and cost three times as much."""

    def draw(self, generator: Generator) -> list[float]:
        """Draw the costs of all trainings."""
        runs = self.ended + self.missing
        costs = np.exp(self.spread * generator.standard_normal(runs))
        return (costs * np.where(generator.random(runs) < self.misses, 3.0, 1.0)).tolist()


@dataclass(frozen=True, kw_only=True)
class ForecastCoverage:
    """How often the interval of a forecast held what the study took in the end."""

    scenario: ForecastScenario
    studies: int
    covered: int


def bench_time_left(argv: Sequence[str]) -> int:
    """Simulate cohorts and studies, and print how often the 80 % intervals of ``scripts/watch.py`` hold.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks time_left",
        description="Simulate cohorts whose runs have random times to the target, look at a run that goes on, and "
        "count how often the 80 % interval of the time that it has left holds the true time. Then simulate studies, "
        "and count how often the 80 % interval of the forecast holds what they take in the end.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks time_left --cohorts 300",
    )
    what = "Simulated cohorts in each scenario"
    args = parse_simulation(parser, argv, count="--cohorts", what=what, default=300)
    generator, console = np.random.default_rng(args.seed), make_console()
    coverages = [cover(scenario, args.cohorts, generator) for scenario in with_progress(scenarios(), console)]
    forecasts = [cover_forecast(scenario, args.cohorts, generator) for scenario in forecast_scenarios()]
    console.print(_table(coverages))
    console.print(_forecast_table(forecasts))
    worst = min(coverages, key=lambda each: each.covered / each.looks)
    poorest = min(forecasts, key=lambda each: each.covered / each.studies)
    lowest = poorest.covered / poorest.studies
    console.print(f"lowest coverage of the time left: {percent(worst.covered / worst.looks)} ({worst.scenario})")
    console.print(f"lowest coverage of a forecast: {percent(lowest)} ({poorest.scenario})")
    write_findings(
        args.json,
        seed=args.seed,
        lowest_coverage=worst.covered / worst.looks,
        lowest_coverage_of_forecasts=lowest,
        scenarios=[asdict(each) for each in coverages],
        forecasts=[asdict(each) for each in forecasts],
    )
    return 0


def scenarios() -> list[Scenario]:
    """Return all scenarios of the time left."""
    return [
        Scenario(earlier=runs, spread=spread, limit_s=limit_s, crashes=crashes, moment=moment)
        for runs, spread, limit_s, crashes, moment in itertools.product(
            _RUNS, _SPREADS, _LIMITS_S, (0.0, 0.3), _MOMENTS
        )
    ]


def forecast_scenarios() -> list[ForecastScenario]:
    """Return all scenarios of forecasts."""
    return [
        ForecastScenario(ended=ended, missing=missing, spread=spread, misses=misses)
        for ended, missing, spread, misses in itertools.product((5, 12), (1, 5, 20), _SPREADS, (0.0, 0.2))
    ]


def cover(scenario: Scenario, cohorts: int, generator: Generator) -> Coverage:
    """Simulate cohorts of one scenario, each with a run that has not ended at the moment of the look."""
    spent_s = scenario.moment * _MEDIAN_S
    widths: list[float] = []
    covered = 0
    for _ in range(cohorts):
        earlier = scenario.draw(generator, scenario.earlier)
        true_s = _MEDIAN_S * math.exp(scenario.spread * generator.standard_normal())
        while true_s <= spent_s:
            true_s = _MEDIAN_S * math.exp(scenario.spread * generator.standard_normal())
        left_s = min(true_s, scenario.limit_s) - spent_s
        found = time_left(earlier, spent_s, scenario.limit_s - spent_s)
        assert found is not None and found.high is not None
        covered += (found.low or 0.0) <= left_s <= found.high + 1e-6
        if found.low is not None:
            widths.append((found.high - found.low) / _MEDIAN_S)
    return Coverage(
        scenario=scenario,
        looks=cohorts,
        intervals=len(widths),
        covered=covered,
        median_width=float(np.median(widths)) if widths else None,
    )


def cover_forecast(scenario: ForecastScenario, studies: int, generator: Generator) -> ForecastCoverage:
    """Simulate studies of one scenario."""
    covered = 0
    for _ in range(studies):
        costs = scenario.draw(generator)
        ended, rest = costs[: scenario.ended], costs[scenario.ended :]
        part = further_trainings(scenario.missing, ended, None)
        assert part is not None
        forecast = add_up(sum(ended), [part], "a simulation")
        assert forecast.low is not None and forecast.high is not None
        covered += forecast.low <= sum(ended) + sum(rest) <= forecast.high
    return ForecastCoverage(scenario=scenario, studies=studies, covered=covered)


def _table(coverages: Sequence[Coverage]) -> Table:
    """Return the lowest and the highest coverage, by the number of earlier runs and the moment of the look."""
    table = Table(title="time left: share of 80 % intervals that hold it, lowest and highest of all scenarios")
    table.box, table.pad_edge, table.title_justify = None, False, "left"
    for header in ("earlier runs", "looked at after", "covered", "width ÷ median time"):
        table.add_column(header, justify="right")
    groups: dict[tuple[int, float], list[Coverage]] = {}
    for each in coverages:
        groups.setdefault((each.scenario.earlier, each.scenario.moment), []).append(each)
    for (runs, moment), own in groups.items():
        shares = [each.covered / each.looks for each in own]
        widths = [each.median_width for each in own if each.median_width is not None]
        table.add_row(
            str(runs),
            f"{moment:g} × median",
            f"{percent(min(shares))} to {percent(max(shares))}",
            f"{min(widths):.2f} to {max(widths):.2f}",
        )
    return table


def _forecast_table(forecasts: Sequence[ForecastCoverage]) -> Table:
    """Return the lowest and the highest coverage of forecasts, by the number of trainings that have ended."""
    table = Table(title="forecast of a study: share of 80 % intervals that hold the true sum")
    table.box, table.pad_edge, table.title_justify = None, False, "left"
    for header in ("ended trainings", "spread of the logarithm", "miss the target", "covered"):
        table.add_column(header, justify="right")
    groups: dict[tuple[int, float, float], list[float]] = {}
    for each in forecasts:
        key = (each.scenario.ended, each.scenario.spread, each.scenario.misses)
        groups.setdefault(key, []).append(each.covered / each.studies)
    for (ended, spread, misses), shares in groups.items():
        cells = (str(ended), f"{spread:g}", percent(misses, 0), f"{percent(min(shares))} to {percent(max(shares))}")
        table.add_row(*cells)
    return table
