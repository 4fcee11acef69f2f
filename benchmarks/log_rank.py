"""``python -m benchmarks log_rank``: how often the log-rank test finds a difference between equal cohorts."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.random import Generator
from rich.table import Table
from scipy.stats import CensoredData, logrank

from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.ledger.costs.time_to_target import RunTime, log_rank_p_value
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.units import percent

_RUNS = (3, 4, 5, 6, 8, 10)
_MISSES = (0.0, 0.3)
_SPREAD = 0.3


@dataclass(frozen=True, kw_only=True)
class Size:
    """How often the p-value is at most 0.05, for equal cohorts."""

    runs: int
    """Runs of each cohort."""
    miss_rate: float
    """True share of runs that miss the target; their time is uniform."""
    pairs: int
    found: int
    """Pairs of cohorts with a p-value of at most 0.05."""
    found_usual: int
    """The same with the usual p-value of the test, which holds for many runs."""


def bench_log_rank(argv: Sequence[str]) -> int:
    """Simulate pairs of equal cohorts, and print how often the log-rank test finds a difference.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks log_rank",
        description="Simulate pairs of cohorts with the same distribution of the time to the target, and count how "
        "often the log-rank test of the report gives a p-value of at most 0.05. The benchmark also counts this for the "
        "usual p-value of the test.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks log_rank --pairs 1000",
    )
    what = "Simulated pairs of cohorts per scenario"
    args = parse_simulation(parser, argv, count="--pairs", what=what, default=2000)
    generator, console = np.random.default_rng(args.seed), make_console()
    scenarios = [*itertools.product(_RUNS, _MISSES)]
    sizes = [_count(runs, miss_rate, args.pairs, generator) for runs, miss_rate in with_progress(scenarios, console)]
    table = Table("runs each", "miss the target", "by permutation", "usual p-value", box=None, pad_edge=False)
    for size in sizes:
        shares = (size.found / size.pairs, size.found_usual / size.pairs)
        table.add_row(str(size.runs), percent(size.miss_rate), *map(percent, shares))
    console.print(table)
    write_findings(args.json, seed=args.seed, scenarios=[asdict(size) for size in sizes])
    return 0


def _censored(runs: Sequence[RunTime]) -> CensoredData:
    """Return the times of runs as SciPy's censored data."""
    return CensoredData.right_censored([run.observed_s for run in runs], [run.to_target_s is None for run in runs])


def _count(runs: int, miss_rate: float, pairs: int, generator: Generator) -> Size:
    """Simulate pairs of cohorts of one scenario; a pair without any success does not count."""
    p_values, usual = [], []
    for _ in range(pairs):
        cohorts = _draw(runs, miss_rate, generator)
        p_value = log_rank_p_value(*cohorts)
        if p_value is None:
            continue
        p_values.append(p_value)
        with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 if only the last run reached the target
            usual.append(logrank(*map(_censored, cohorts)).pvalue)
    return Size(
        runs=runs,
        miss_rate=miss_rate,
        pairs=len(p_values),
        found=sum(p_value <= 0.05 for p_value in p_values),
        found_usual=int(sum(p_value <= 0.05 for p_value in usual)),
    )


def _draw(runs: int, miss_rate: float, generator: Generator) -> tuple[list[RunTime], list[RunTime]]:
    """Draw two cohorts."""
    times = np.exp(_SPREAD * generator.standard_normal(2 * runs))
    missed = generator.random(2 * runs) < miss_rate
    ended = np.where(missed, 2 * generator.random(2 * runs), times)
    drawn = [
        RunTime(wall_s=float(wall_s), to_target_s=None if short else float(wall_s))
        for wall_s, short in zip(ended, missed, strict=True)
    ]
    return drawn[:runs], drawn[runs:]
