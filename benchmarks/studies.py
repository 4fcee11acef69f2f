"""``python -m benchmarks studies``: how often a study of equal arms claims a difference."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.random import Generator
from rich.table import Table

from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.reports.compare import LEVEL, Outcome, RatioEstimate, compare_outcomes, holm
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.units import percent

_ARMS = 3
_SEEDS = (3, 5, 10)
_MISSES = (0.0, 0.2)
_FACTORS = (1.0, 2.0)
_SPREAD = 0.3
"""Standard deviation of the logarithm of the time to the target; its median is 1."""
_BUDGET = 3.0
"""Time of a run that misses the target, unless it crashes."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A study of three arms whose true times to the target are known."""

    seeds: int
    miss_rate: float
    """True share of runs that miss the target. Half of them crash, at a moment that is uniform over the budget."""
    factor: float
    """True time to the target of the last arm ÷ that of the others. With 1, every claim is wrong."""

    def draw(self, generator: Generator, factor: float) -> list[Outcome]:
        """Draw the results of an arm; a run costs a dollar per unit of time."""
        found = []
        for seed in range(self.seeds):
            seconds = factor * float(np.exp(_SPREAD * generator.standard_normal()))
            reached = generator.random() >= self.miss_rate and seconds <= _BUDGET
            if not reached:
                seconds = _BUDGET * (generator.random() if generator.random() < 0.5 else 1.0)
            found.append(Outcome(run_id=str(seed), seed=seed, reached_target=reached, seconds=seconds, usd=seconds))
        return found


@dataclass(frozen=True, kw_only=True)
class Claims:
    """How many studies claimed a difference."""

    scenario: Scenario
    studies: int
    claiming: int
    """Studies that claim a difference in time or cost between the first and another arm."""
    claiming_by_intervals: int
    """The same if every 95 % interval that excludes 1 is a claim, as in earlier versions."""


def bench_studies(argv: Sequence[str]) -> int:
    """Simulate studies of three arms, and print how often they claim a difference.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks studies",
        description="Simulate studies of three arms, and count how often study.py claims a difference in time or cost. "
        "In some studies all arms are equal, so that every claim is wrong. In the others, the last arm takes twice as "
        "long as the first two.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks studies --studies 400",
    )
    args = parse_simulation(parser, argv, count="--studies", what="Simulated studies per scenario", default=2000)
    generator, console = np.random.default_rng(args.seed), make_console()
    scenarios = [
        Scenario(seeds=seeds, miss_rate=miss_rate, factor=factor)
        for factor, seeds, miss_rate in itertools.product(_FACTORS, _SEEDS, _MISSES)
    ]
    found = [_count(scenario, args.studies, generator) for scenario in with_progress(scenarios, console)]
    table = Table(
        "last arm", "seeds", "miss the target", "claim a difference", "by intervals", box=None, pad_edge=False
    )
    for each in found:
        shares = (each.claiming / each.studies, each.claiming_by_intervals / each.studies)
        last = "equal" if each.scenario.factor == 1 else f"{each.scenario.factor:g} × as long"
        table.add_row(last, str(each.scenario.seeds), percent(each.scenario.miss_rate), *map(percent, shares))
    console.print(table)
    highest = max(each.claiming / each.studies for each in found if each.scenario.factor == 1)
    console.print(f"wrong claims: at most {percent(highest)} of {args.studies} studies of equal arms per scenario")
    write_findings(args.json, seed=args.seed, highest_share_of_wrong_claims=highest, scenarios=[*map(asdict, found)])
    return 0


def _count(scenario: Scenario, studies: int, generator: Generator) -> Claims:
    """Simulate studies of one scenario."""
    factors = [1.0] * (_ARMS - 1) + [scenario.factor]
    claiming = by_intervals = 0
    for _ in range(studies):
        first, *others = (scenario.draw(generator, factor) for factor in factors)
        untested = itertools.chain(*(compare_outcomes(first, other, paired=True, tested=False) for other in others))
        if not any(map(_excludes_1, untested)):
            continue  # nothing can be claimed, whatever the tests say
        by_intervals += 1
        tested = [*itertools.chain(*(compare_outcomes(first, other, paired=True) for other in others))]
        claiming += any(
            _excludes_1(estimate) and (p_value is None or p_value <= LEVEL)
            for estimate, p_value in zip(tested, holm([each.p_value for each in tested]), strict=True)
        )
    return Claims(scenario=scenario, studies=studies, claiming=claiming, claiming_by_intervals=by_intervals)


def _excludes_1(estimate: RatioEstimate) -> bool:
    """Whether the interval of a ratio excludes 1."""
    if estimate.interval is None:
        return False
    low, high = estimate.interval
    return low > 1 or high < 1
