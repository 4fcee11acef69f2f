"""``python -m benchmarks cost_interval``: how often intervals of the cost per target-reaching checkpoint are right."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS, cost_interval, cost_ratio_interval
from ledger_lab.ledger.costs.few_runs import percentile_levels
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.units import percent

_RUNS = (5, 8, 20)
_RATES = (0.8, 0.9, 0.95, 1.0)
_SPREADS = (0.1, 0.5)
_FAILURES = (0.3, 1.0, 2.0, 4.0)
_BOOTSTRAP_DRAWS = 1000
_LIKENESS = 0.8

type Numbers = NDArray[np.float64]
"""A number for each run, or for each draw of a bootstrap."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A cohort whose true cost per success is known."""

    runs: int
    rate: float
    """True share of runs that reach the target."""
    spread: float
    """Standard deviation of the logarithm of the spend of a run that reaches the target; its median is 1 USD."""
    failure_usd: float
    """Largest spend of a run that misses the target [USD]."""
    crashes: bool
    """Whether every other such run ends early, at a moment that is uniform over its time."""

    @property
    def true_usd(self) -> float:
        """Expected spend per success [USD]."""
        failure = self.failure_usd * (0.75 if self.crashes else 1.0)
        return float(np.exp(self.spread**2 / 2) + (1 - self.rate) / self.rate * failure)

    def draw(self, generator: Generator, common: Numbers | None = None) -> list[tuple[float, bool]]:
        """Draw the spend of each run [USD], and whether it reached the target.

        Args:
            generator: Source of random numbers.
            common: What the runs share with runs of other cohorts that have the same training seeds, standard normal;
                shape (runs,). It accounts for :data:`_LIKENESS` of the variance of the spends.
        """
        reached = generator.random(self.runs) < self.rate
        noise = generator.standard_normal(self.runs)
        if common is not None:
            noise = np.sqrt(_LIKENESS) * common + np.sqrt(1 - _LIKENESS) * noise
        successes = np.exp(self.spread * noise)
        ended_early = self.crashes & (generator.random(self.runs) < 0.5)
        failures = self.failure_usd * np.where(ended_early, generator.random(self.runs), 1.0)
        return list(zip(np.where(reached, successes, failures).tolist(), reached.tolist(), strict=True))


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often intervals held the true cost."""

    scenario: Scenario
    cohorts: int
    """Simulated cohorts with at least one success; without one, the cost is undefined."""
    covered: int
    covered_by_bootstrap: int
    """The same for a bootstrap over runs with expanded percentiles, which LedgerLab used before."""
    median_width: float
    """Median width of the interval ÷ the true cost."""


@dataclass(frozen=True, kw_only=True)
class RatioScenario:
    """Two cohorts of as many runs."""

    first: Scenario
    second: Scenario
    paired: bool
    """Whether both cohorts have the same training seeds, so that their spends are alike."""

    @property
    def true_ratio(self) -> float:
        """Expected spend per success of the first cohort ÷ that of the second."""
        return self.first.true_usd / self.second.true_usd


@dataclass(frozen=True, kw_only=True)
class RatioCoverage:
    """How often intervals held the true ratio of two costs."""

    scenario: RatioScenario
    pairs: int
    """Simulated pairs of cohorts with at least one success on a side."""
    covered: int
    covered_by_bootstrap: int
    """The same for a bootstrap over runs, or over pairs of runs, which ``report.py compare`` used before."""
    median_width: float
    """Median of upper ÷ lower end."""


def bench_cost_interval(argv: Sequence[str]) -> int:
    """Simulate cohorts, and print how often the interval of their cost holds the true cost.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks cost_interval",
        description="Simulate cohorts whose true cost per target-reaching checkpoint is known, and count how often the "
        "95 % interval of the report holds it. With --ratios, do the same for the ratio of the costs of two cohorts. "
        f"The report shows intervals for {FEWEST_RUNS} or more runs.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks cost_interval --cohorts 2000",
    )
    parser.add_argument(
        "--ratios", action="store_true", help="Simulate pairs of cohorts, and the ratio of their costs."
    )
    what = "Simulated cohorts in each scenario"
    args = parse_simulation(parser, argv, count="--cohorts", what=what, default=1000)
    generator = np.random.default_rng(args.seed)
    (_bench_ratios if args.ratios else _bench_costs)(args.cohorts, args.seed, generator, args.json)
    return 0


def _bench_costs(cohorts: int, seed: int, generator: Generator, file: Path | None) -> None:
    """Print and write how often the interval of a cost holds the true cost."""
    console = make_console()
    coverages = [_cover(scenario, cohorts, generator) for scenario in with_progress(_scenarios(), console)]
    console.print(_table(coverages))
    worst = min(coverages, key=lambda each: each.covered / each.cohorts)
    console.print(f"lowest coverage: {percent(worst.covered / worst.cohorts)} of {worst.cohorts} ({worst.scenario})")
    rows = [asdict(each) | {"true_usd": each.scenario.true_usd} for each in coverages]
    write_findings(file, seed=seed, lowest_coverage=worst.covered / worst.cohorts, scenarios=rows)


def _bench_ratios(cohorts: int, seed: int, generator: Generator, file: Path | None) -> None:
    """Print and write how often the interval of the ratio of two costs holds the true ratio."""
    console = make_console()
    coverages = [cover_ratio(scenario, cohorts, generator) for scenario in with_progress(_ratio_scenarios(), console)]
    console.print(_ratio_table(coverages))
    worst = min(coverages, key=lambda each: each.covered / each.pairs)
    console.print(f"lowest coverage: {percent(worst.covered / worst.pairs)} of {worst.pairs} ({worst.scenario})")
    rows = [asdict(each) | {"true_ratio": each.scenario.true_ratio} for each in coverages]
    write_findings(file, seed=seed, lowest_coverage=worst.covered / worst.pairs, scenarios=rows)


def _scenarios() -> list[Scenario]:
    """Return all scenarios; if all runs succeed, the cost of failures makes no difference."""
    found = []
    for runs, rate, spread, failure, crashes in itertools.product(_RUNS, _RATES, _SPREADS, _FAILURES, (False, True)):
        if rate < 1 or (failure == 1 and not crashes):
            found.append(Scenario(runs=runs, rate=rate, spread=spread, failure_usd=failure, crashes=crashes))
    return found


def _ratio_scenarios() -> list[RatioScenario]:
    """Return pairs of cohorts; if all runs succeed, the cost of failures makes no difference."""
    found = []
    rates = ((0.8, 0.8), (0.8, 0.95), (0.9, 1.0), (1.0, 1.0))
    failures = ((1.0, 1.0), (4.0, 4.0), (0.3, 4.0))
    for runs, of, usd, paired in itertools.product(_RUNS, rates, failures, (False, True)):
        if of != (1.0, 1.0) or usd == (1.0, 1.0):
            first, second = (
                Scenario(runs=runs, rate=rate, spread=0.5 if paired else 0.3, failure_usd=failure, crashes=False)
                for rate, failure in zip(of, usd, strict=True)
            )
            found.append(RatioScenario(first=first, second=second, paired=paired))
    return found


def _cover(scenario: Scenario, cohorts: int, generator: Generator) -> Coverage:
    """Simulate cohorts of one scenario."""
    true = scenario.true_usd
    widths: list[float] = []
    covered = by_bootstrap = 0
    for _ in range(cohorts):
        runs = scenario.draw(generator)
        if not any(reached for _, reached in runs):
            continue
        low, high = cost_interval(runs, seed=int(generator.integers(2**31)))
        covered += low <= true <= high
        widths.append((high - low) / true)
        low, high = _bootstrap(runs, generator)
        by_bootstrap += low <= true <= high
    return Coverage(
        scenario=scenario,
        cohorts=len(widths),
        covered=covered,
        covered_by_bootstrap=by_bootstrap,
        median_width=float(np.median(widths)),
    )


def cover_ratio(scenario: RatioScenario, cohorts: int, generator: Generator) -> RatioCoverage:
    """Simulate pairs of cohorts of one scenario."""
    true, runs = scenario.true_ratio, scenario.first.runs
    widths: list[float] = []
    covered = by_bootstrap = 0
    for _ in range(cohorts):
        common = generator.standard_normal(runs) if scenario.paired else None
        first, second = (side.draw(generator, common) for side in (scenario.first, scenario.second))
        if not any(reached for _, reached in (*first, *second)):
            continue
        low, high = cost_ratio_interval(first, second, seed=int(generator.integers(2**31)))
        covered += low <= true <= high
        widths.append(high / low if low else np.inf)
        drawn = generator.integers(runs, size=(2, _BOOTSTRAP_DRAWS, runs))
        upper, lower = _resampled(first, drawn[0]), _resampled(second, drawn[0 if scenario.paired else 1])
        with np.errstate(invalid="ignore"):
            ratios = upper / lower
        ends = [
            np.quantile(np.where(np.isnan(ratios), undecided, ratios), level, method="inverted_cdf")
            for undecided, level in zip((0.0, np.inf), percentile_levels(runs), strict=True)
        ]
        by_bootstrap += bool(ends[0] <= true <= ends[1])
    return RatioCoverage(
        scenario=scenario,
        pairs=len(widths),
        covered=covered,
        covered_by_bootstrap=by_bootstrap,
        median_width=float(np.median(widths)),
    )


def _bootstrap(runs: Sequence[tuple[float, bool]], generator: Generator) -> tuple[float, float]:
    """Return the interval of a bootstrap over runs, in which a resample without success costs infinitely much."""
    costs = _resampled(runs, generator.integers(len(runs), size=(_BOOTSTRAP_DRAWS, len(runs))))
    low, high = np.quantile(costs, percentile_levels(len(runs)), method="inverted_cdf")
    return float(low), float(high)


def _resampled(runs: Sequence[tuple[float, bool]], drawn: NDArray[np.int64]) -> Numbers:
    """Return the cost of each resample; without success, it is infinite.

    Args:
        runs: Spend of each run [USD], and whether it reached the target.
        drawn: Drawn runs of each resample; shape (resamples, runs).
    """
    usd, reached = (np.array(column) for column in zip(*runs, strict=True))
    successes = reached[drawn].sum(axis=1)
    costs = np.full(len(drawn), np.inf)
    np.divide(usd[drawn].sum(axis=1), successes, out=costs, where=successes > 0)
    return costs


def _table(coverages: Sequence[Coverage]) -> Table:
    """Return the lowest and the highest coverage, by number of runs and success rate."""
    table = Table(title="95 % intervals: share that holds the true cost, lowest and highest of all scenarios")
    table.box, table.pad_edge, table.title_justify = None, False, "left"
    for header in ("runs", "success rate", "interval", "bootstrap", "median width ÷ cost"):
        table.add_column(header, justify="right")
    for (runs, rate), group in itertools.groupby(coverages, lambda each: (each.scenario.runs, each.scenario.rate)):
        own = list(group)
        cells = [
            f"{percent(min(shares))} to {percent(max(shares))}"
            for shares in (
                [each.covered / each.cohorts for each in own],
                [each.covered_by_bootstrap / each.cohorts for each in own],
            )
        ]
        widths = [each.median_width for each in own]
        table.add_row(str(runs), f"{100 * rate:g} %", *cells, f"{min(widths):.2f} to {max(widths):.2f}")
    return table


def _ratio_table(coverages: Sequence[RatioCoverage]) -> Table:
    """Return the lowest and the highest coverage of ratios, by number of runs and success rates."""
    table = Table(title="95 % intervals of the ratio of two costs: share that holds the true ratio")
    table.box, table.pad_edge, table.title_justify = None, False, "left"
    for header in ("runs on a side", "success rates", "interval", "bootstrap", "upper ÷ lower end"):
        table.add_column(header, justify="right")
    for (runs, *rates), group in itertools.groupby(
        coverages, lambda each: (each.scenario.first.runs, each.scenario.first.rate, each.scenario.second.rate)
    ):
        own = list(group)
        cells = [
            f"{percent(min(shares))} to {percent(max(shares))}"
            for shares in (
                [each.covered / each.pairs for each in own],
                [each.covered_by_bootstrap / each.pairs for each in own],
            )
        ]
        widths = [each.median_width for each in own]
        sides = " and ".join(f"{100 * rate:g} %" for rate in rates)
        table.add_row(str(runs), sides, *cells, f"{min(widths):.1f} to {max(widths):.1f}")
    return table
