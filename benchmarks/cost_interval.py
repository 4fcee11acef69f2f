"""``benchmarks cost_interval``: how often the interval of the cost per target-reaching checkpoint holds the cost."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.random import Generator
from rich.table import Table

from benchmarks.comparison import add_json
from ledger_lab.costs.bootstrap import percentile_levels
from ledger_lab.costs.cost_interval import FEWEST_RUNS, cost_interval
from ledger_lab.errors import UserError
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.findings import write_findings
from ledger_lab.terminal.progress import Progress
from ledger_lab.units import percent

_RUNS = (5, 8, 20)
_RATES = (0.8, 0.9, 0.95, 1.0)
_SPREADS = (0.1, 0.5)
_FAILURES = (0.3, 1.0, 2.0, 4.0)
_BOOTSTRAP_DRAWS = 1000


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

    def draw(self, generator: Generator) -> list[tuple[float, bool]]:
        """Draw the spend of each run [USD], and whether it reached the target."""
        reached = generator.random(self.runs) < self.rate
        successes = np.exp(self.spread * generator.standard_normal(self.runs))
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
        f"95 %% interval of the report holds it. The report shows an interval for {FEWEST_RUNS} or more runs.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks cost_interval --cohorts 2000",
    )
    parser.add_argument("--cohorts", type=int, default=1000, help="Simulated cohorts in each scenario (default: 1000).")
    parser.add_argument("--seed", type=int, default=1, help="Seed of the simulation (default: 1).")
    add_json(parser, "the counts of every scenario")
    args = parser.parse_args(argv)
    if args.cohorts < 1:
        raise UserError(f"--cohorts {args.cohorts}: must be at least 1")
    generator = np.random.default_rng(args.seed)
    console = make_console()
    coverages: list[Coverage] = []
    scenarios = _scenarios()
    with Progress(console, "scenarios", len(scenarios)) as progress:
        for scenario in scenarios:
            coverages.append(_cover(scenario, args.cohorts, generator))
            progress.advance(len(coverages))
    console.print(_table(coverages))
    worst = min(coverages, key=lambda each: each.covered / each.cohorts)
    console.print(f"lowest coverage: {percent(worst.covered / worst.cohorts)} of {worst.cohorts} ({worst.scenario})")
    rows = [asdict(each) | {"true_usd": each.scenario.true_usd} for each in coverages]
    write_findings(args.json, seed=args.seed, lowest_coverage=worst.covered / worst.cohorts, scenarios=rows)
    return 0


def _scenarios() -> list[Scenario]:
    """Return all scenarios; if all runs succeed, the cost of failures makes no difference."""
    found = []
    for runs, rate, spread, failure, crashes in itertools.product(_RUNS, _RATES, _SPREADS, _FAILURES, (False, True)):
        if rate < 1 or (failure == 1 and not crashes):
            found.append(Scenario(runs=runs, rate=rate, spread=spread, failure_usd=failure, crashes=crashes))
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


def _bootstrap(runs: Sequence[tuple[float, bool]], generator: Generator) -> tuple[float, float]:
    """Return the interval of a bootstrap over runs, in which a resample without success costs infinitely much."""
    usd, reached = (np.array(column) for column in zip(*runs, strict=True))
    drawn = generator.integers(len(runs), size=(_BOOTSTRAP_DRAWS, len(runs)))
    successes = reached[drawn].sum(axis=1)
    costs = np.full(_BOOTSTRAP_DRAWS, np.inf)
    np.divide(usd[drawn].sum(axis=1), successes, out=costs, where=successes > 0)
    low, high = np.quantile(costs, percentile_levels(len(runs)), method="inverted_cdf")
    return float(low), float(high)


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
