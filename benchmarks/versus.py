"""``python -m benchmarks versus``: level and power of the comparison of two policies, and coverage of its interval."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.simulation import parse_simulation, with_progress
from benchmarks.verdict import passed_proofs
from ledger_lab.panels.comparison import LEVEL, compare_paired, compare_proven
from ledger_lab.panels.verdict import VerdictRule
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.units import MISSING, percent

type Outcomes = NDArray[np.bool_]
"""Whether a policy succeeds; shape (seeds, cells)."""

_SHARED = 0.7
"""Correlation of the difficulty of a seed's episodes, in all cells and for both policies."""

_TARGET, _EPISODES = 0.9, 256
_CONFIRMED = ((0.9, 0.9), (0.905, 0.905), (0.92, 0.92), (0.95, 0.95), (0.91, 0.95), (0.92, 0.99), (0.97, 0.99))
"""True success rates of two policies whose proofs are compared."""
_CONFIRMATIONS = 20
"""Proofs that are simulated for each trial, because most policies at the target are not proven."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Two policies whose true difference is known, on episodes that both play."""

    name: str
    first: tuple[float, ...]
    """True success rate of the first policy, by cell."""
    second: tuple[float, ...]
    """True success rate of the second policy, by cell."""
    episodes: int
    """Episodes of all cells together."""
    own_seeds: bool
    """Whether each episode has a seed of its own, as in ``evaluate.py --versus``; else each seed has all cells."""
    lopsided: bool = False
    """Whether the second policy wins all cells of one tenth of the seeds, and loses one cell of four tenths."""

    @property
    def true_difference(self) -> float:
        """Success rate of the second policy minus that of the first, over all cells."""
        return float(np.mean(self.second) - np.mean(self.first))

    @property
    def seeds(self) -> int:
        """Number of seeds with outcomes that are independent of each other."""
        return self.episodes if self.own_seeds else self.episodes // len(self.first)

    def draw(self, generator: Generator) -> tuple[Outcomes, Outcomes]:
        """Draw the outcomes of both policies.

        Returns:
            Outcomes of the first and of the second policy; shape (seeds, cells). If each episode has a seed of its own,
            the shape is (episodes of each cell, cells), and the rows mean nothing.
        """
        cells = len(self.first)
        shape = (self.episodes // cells, cells)
        own = shape if self.own_seeds else (shape[0], 1)
        if self.lopsided:
            kind = np.broadcast_to(generator.choice(3, size=own, p=[0.1, 0.4, 0.5]), shape)
            cell = np.broadcast_to(generator.integers(cells, size=own), shape)
            won, lost = kind == 0, (kind == 1) & (cell == np.arange(cells))
            return ~won, ~lost
        difficulty = np.sqrt(_SHARED) * generator.standard_normal(own)
        first, second = (
            difficulty + np.sqrt(1 - _SHARED) * generator.standard_normal(shape) < [_quantile(rate) for rate in rates]
            for rates in (self.first, self.second)
        )
        return first, second


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What comparisons claimed in a scenario."""

    scenario: Scenario
    trials: int
    rejected: int
    """Comparisons with a p-value of at most 0.05."""
    covered: int
    """Comparisons whose interval contains the true difference."""
    contradictions: int
    """Comparisons whose interval and test disagree about a difference of 0."""
    mean_width: float
    """Mean width of the interval, in [0, 2]."""


@dataclass(frozen=True, kw_only=True)
class ProvenFinding:
    """What comparisons of two proofs claimed."""

    first: float
    """True success rate of the first policy."""
    second: float
    """True success rate of the second policy."""
    pairs: int
    """Pairs of proofs that both passed."""
    covered: int
    """Comparisons whose interval contains the true difference."""
    differences: int
    """Comparisons whose interval leaves out 0."""


def bench_versus(argv: Sequence[str]) -> int:
    """Compare simulated policies, and print how often a difference is claimed and how often the interval is right.

    Args:
        argv: Command line without the program's name.

    Returns:
        0, or 1 if an interval and a test contradicted each other.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks versus",
        description="Compare pairs of policies whose true difference is known, with the test of evaluate.py --versus. "
        "Count how often the test claims a difference, and how often its 95 % interval contains the true one.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks versus --trials 500",
    )
    args = parse_simulation(parser, argv, count="--trials", what="Comparisons in each scenario", default=4000)
    generator = np.random.default_rng(args.seed)
    console = make_console()
    findings = [examine(scenario, args.trials, generator) for scenario in with_progress(_scenarios(), console)]
    proven = [examine_proven(first, second, _CONFIRMATIONS * args.trials, generator) for first, second in _CONFIRMED]
    console.print(_table(findings), _proven_table(proven))
    contradictions = sum(each.contradictions for each in findings)
    console.print(f"interval and test contradict each other in {contradictions} comparisons")
    rows = [asdict(each) | {"true_difference": each.scenario.true_difference} for each in findings]
    write_findings(
        args.json,
        seed=args.seed,
        contradictions=contradictions,
        findings=rows,
        proven=[asdict(each) for each in proven],
    )
    return 1 if contradictions else 0


def examine(scenario: Scenario, trials: int, generator: Generator) -> Finding:
    """Compare the policies of a scenario again and again.

    Args:
        scenario: The scenario.
        trials: Number of comparisons.
        generator: Source of random numbers.
    """
    true = scenario.true_difference
    rejected = covered = contradictions = 0
    widths = []
    for _ in range(trials):
        first, second = scenario.draw(generator)
        clusters = None if scenario.own_seeds else np.repeat(np.arange(len(first)), first.shape[1]).tolist()
        found = compare_paired(first.ravel().tolist(), second.ravel().tolist(), clusters)
        low, high = found.interval
        rejected += found.p_value <= LEVEL
        covered += low <= true <= high
        contradictions += (found.p_value <= LEVEL) == (low <= 0 <= high)
        widths.append(high - low)
    return Finding(
        scenario=scenario,
        trials=trials,
        rejected=rejected,
        covered=covered,
        contradictions=contradictions,
        mean_width=float(np.mean(widths)),
    )


def examine_proven(first: float, second: float, proofs: int, generator: Generator) -> ProvenFinding:
    """Compare two policies by their proofs, as ``report.py compare`` does.

    Args:
        first: True success rate of the first policy.
        second: True success rate of the second policy.
        proofs: Proofs of each policy; those that pass are compared.
        generator: Source of random numbers.
    """
    rule = VerdictRule(_TARGET)
    passed = (passed_proofs([rate], rule, _EPISODES, proofs, generator) for rate in (first, second))
    intervals = [compare_proven(one, other).interval for (_, one), (_, other) in zip(*passed, strict=False)]
    return ProvenFinding(
        first=first,
        second=second,
        pairs=len(intervals),
        covered=sum(low <= second - first <= high for low, high in intervals),
        differences=sum(not low <= 0 <= high for low, high in intervals),
    )


def _scenarios() -> list[Scenario]:
    """Return policies that are equal in each cell, equal on average, or different."""
    one_cell = [
        Scenario(
            name=f"{100 * gain:g} points better than {100 * rate:g} %" if gain else f"equal, {100 * rate:g} %",
            first=(rate,),
            second=(rate + gain,),
            episodes=episodes,
            own_seeds=True,
        )
        for rate, gain in ((0.9, 0.0), (0.5, 0.0), (0.9, 0.03), (0.9, 0.05), (0.85, 0.1))
        for episodes in (16, 32, 64, 128, 256)
    ]
    several: tuple[tuple[str, tuple[float, ...], tuple[float, ...], bool], ...] = (
        ("equal in each cell", (0.95, 0.9, 0.8, 0.6), (0.95, 0.9, 0.8, 0.6), False),
        ("equal on average, by cells", (0.95, 0.75, 0.95, 0.75), (0.75, 0.95, 0.75, 0.95), False),
        ("equal on average, lopsided", (0.9,) * 4, (0.9,) * 4, True),
        ("5 points better in each cell", (0.85,) * 4, (0.9,) * 4, False),
    )
    four_cells = [
        Scenario(name=name, first=first, second=second, episodes=episodes, own_seeds=own_seeds, lopsided=lopsided)
        for name, first, second, lopsided in several
        for own_seeds in (True, False)
        for episodes in (64, 128, 256, 512, 1024)
    ]
    return one_cell + four_cells


def _quantile(rate: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(rate)


def _table(findings: Sequence[Finding]) -> Table:
    """Return a row per scenario."""
    table = Table(title="Comparisons of two policies on common episodes")
    table.box, table.pad_edge, table.title_justify = None, False, "left"
    table.add_column("second policy")
    for header in ("cells", "seeds", "episodes", "p ≤ 0.05", "interval is right", "mean width [points]"):
        table.add_column(header, justify="right")
    for each in findings:
        scenario = each.scenario
        table.add_row(
            scenario.name,
            str(len(scenario.first)),
            str(scenario.seeds),
            str(scenario.episodes),
            percent(each.rejected / each.trials),
            percent(each.covered / each.trials),
            f"{100 * each.mean_width:.1f}",
        )
    return table


def _proven_table(findings: Sequence[ProvenFinding]) -> Table:
    """Return a row per pair of policies."""
    table = Table(title="Comparisons of two proven policies by their proofs")
    table.box, table.pad_edge, table.title_justify = None, False, "left"
    for header in ("first policy", "second policy", "pairs", "interval leaves out 0", "interval is right"):
        table.add_column(header, justify="right")
    for each in findings:
        shares = [percent(count / each.pairs) if each.pairs else MISSING for count in (each.differences, each.covered)]
        table.add_row(percent(each.first), percent(each.second), str(each.pairs), *shares)
    return table
