"""``python -m benchmarks reward_hacking``: how often this health event is reported, with and without a cause."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np
from numpy.random import Generator
from rich.table import Table

from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.training.health import Settings
from ledger_lab.training.health.held_out import Check, RewardHacking
from ledger_lab.units import percent

_SCREENINGS = 50
_DEVIATIONS = 4.0
"""Standard deviations that the difference of two pooled success rates had to exceed in the earlier rule."""
_FALL = 0.15
"""Smallest fall of the success rate, in both rules."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A training whose return rises all the time, and whose true success rate is known."""

    success: float
    """True success rate of all policies in the first half of the training."""
    later: float
    """The same in its second half."""
    seeds: int
    cells: int
    likeness: float
    """Correlation between the outcomes of two policies on the same seed, by its difficulty, in [0, 1)."""
    within: float
    """Correlation between the outcomes of a policy in the cells of a seed, apart from the difficulty, in [0, 1]."""

    def draw(self, generator: Generator) -> list[tuple[bool, ...]]:
        """Draw the outcomes of all checks, cell after cell."""
        normal = NormalDist()
        levels = [normal.inv_cdf(self.success), normal.inv_cdf(self.later)]
        level = np.repeat(levels, [_SCREENINGS // 2, _SCREENINGS - _SCREENINGS // 2])
        difficulty = math.sqrt(self.likeness) * generator.standard_normal(self.seeds)
        of_seed = math.sqrt(self.within) * generator.standard_normal((_SCREENINGS, 1, self.seeds))
        of_episode = math.sqrt(1 - self.within) * generator.standard_normal((_SCREENINGS, self.cells, self.seeds))
        noise = math.sqrt(1 - self.likeness) * (of_seed + of_episode)
        outcomes = difficulty + noise < level[:, np.newaxis, np.newaxis]
        return [tuple(each) for each in outcomes.reshape(_SCREENINGS, -1).tolist()]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """How many trainings reported the event."""

    scenario: Scenario
    trainings: int
    reported: int
    reported_by_pooling: int
    """The same for an earlier rule, which pooled the episodes of two checks as if they were independent."""


def bench_reward_hacking(argv: Sequence[str]) -> int:
    """Simulate trainings, and print how many of them report the event.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks reward_hacking",
        description=f"Simulate trainings with {_SCREENINGS} checks each, whose return always rises. Count how many "
        "report the health event reward_hacking, although the success rate stays the same, or because it falls.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks reward_hacking --trainings 200",
    )
    args = parse_simulation(parser, argv, count="--trainings", what="Trainings in each scenario", default=400)
    generator = np.random.default_rng(args.seed)
    console = make_console()
    findings = [examine(scenario, args.trainings, generator) for scenario in with_progress(_scenarios(), console)]
    console.print(_table(findings))
    steady = [each for each in findings if each.scenario.later >= each.scenario.success]
    worst = max(each.reported / each.trainings for each in steady)
    console.print(f"without a fall, at most {percent(worst, 2)} of the trainings report one")
    rows = [asdict(each) for each in findings]
    write_findings(args.json, seed=args.seed, checks=_SCREENINGS, most_false_reports=worst, findings=rows)
    return 0


def examine(scenario: Scenario, trainings: int, generator: Generator) -> Finding:
    """Simulate trainings of a scenario.

    Args:
        scenario: The scenario.
        trainings: Number of trainings.
        generator: Source of random numbers.
    """
    seeds = tuple(range(scenario.seeds)) * scenario.cells
    reported = by_pooling = 0
    for _ in range(trainings):
        outcomes = scenario.draw(generator)
        rule, returns, found = RewardHacking(Settings()), [0.0], False
        for number, success in enumerate(outcomes, start=1):
            returns.append(float(number))
            found |= rule.look(Check(number, success, seeds, (float(number),)), returns) is not None
        reported += found
        by_pooling += _pooled(outcomes)
    return Finding(scenario=scenario, trainings=trainings, reported=reported, reported_by_pooling=by_pooling)


def _pooled(outcomes: Sequence[tuple[bool, ...]]) -> bool:
    """Tell whether the earlier rule reports the event: two falls in a row, by the pooled success rates."""
    episodes = len(outcomes[0])
    best, *others = (sum(each) for each in outcomes)
    falls = 0
    for latest in others:
        share = (best + latest) / (2 * episodes)
        deviation = math.sqrt(share * (1 - share) * 2 / episodes)
        falls = falls + 1 if (best - latest) / episodes > max(_FALL, _DEVIATIONS * deviation) else 0
        if falls == 2:
            return True
        best = max(best, latest)
    return False


def _scenarios() -> list[Scenario]:
    """Return trainings without a fall, and trainings with one."""
    shapes = ((64, 1, 0.0), (128, 1, 0.0), (256, 1, 0.0), (32, 9, 0.0), (32, 9, 1.0))
    return [
        Scenario(success=success, later=later, seeds=seeds, cells=cells, likeness=likeness, within=within)
        for success, later in ((0.5, 0.5), (0.8, 0.8), (0.95, 0.95), (0.95, 0.7), (0.9, 0.5), (0.8, 0.1))
        for seeds, cells, within in shapes
        for likeness in (0.0, 0.8)
    ]


def _table(findings: Sequence[Finding]) -> Table:
    """Return a row per scenario."""
    table = Table(title="Share of trainings that report reward hacking")
    table.box, table.pad_edge, table.title_justify = None, False, "left"
    headers = ("success", "later", "seeds", "cells", "likeness of policies", "likeness of cells", "reported", "pooling")
    for header in headers:
        table.add_column(header, justify="right")
    for each in findings:
        scenario = each.scenario
        table.add_row(
            percent(scenario.success, 0),
            percent(scenario.later, 0),
            str(scenario.seeds),
            str(scenario.cells),
            f"{scenario.likeness:g}",
            f"{scenario.within:g}",
            percent(each.reported / each.trainings, 2),
            percent(each.reported_by_pooling / each.trainings, 2),
        )
    return table
