"""``python -m benchmarks recommend``: how good recommendations are."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.random import Generator
from rich.table import Table

from benchmarks.scaled_runs import simulated_run
from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.studies.recommend.recommendation import Goal, Limits, recommend
from ledger_lab.studies.scaling.points import Identity, ScaledRun
from ledger_lab.units import percent

_SIZES = (1, 2, 4, 8)
_SEEDS = 5
_NUM_ENVS, _HORIZON = 64, 16
_START_UP_S, _SCORING, _SHUTDOWN_S = 5.0, 0.1, 1.0
_FEWEST_SAMPLES, _SINGLE_RATE = 2e6, 20_000.0


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Machines of 1, 2, 4 and 8 accelerators, whose laws are known."""

    contention: float
    critical_batch: float
    spread: float
    """Standard deviation of the logarithm of the samples to the target."""
    discount: float
    """Price of an accelerator in a machine twice as large ÷ price in the smaller one."""

    def samples(self, size: int) -> float:
        """Return the median samples to the target."""
        return _FEWEST_SAMPLES * (1 + size * _NUM_ENVS * _HORIZON / self.critical_batch)

    def rate(self, size: int) -> float:
        """Return the steps per second."""
        return _SINGLE_RATE * (size - self.contention * (size - 1))

    def median_s(self, size: int) -> float:
        """Return the median time to the target [s]."""
        return _START_UP_S + self.samples(size) / self.rate(size) * (1 + _SCORING)

    def cost_usd(self, size: int) -> float:
        """Return the expected cost per target-reaching checkpoint; all runs reach the target [USD]."""
        training_s = (self.median_s(size) - _START_UP_S) * math.exp(self.spread**2 / 2)
        return (_START_UP_S + training_s + _SHUTDOWN_S) / 3600 * self.usd_per_hour(size)

    def usd_per_hour(self, size: int) -> float:
        """Return the price of a machine [USD/h]."""
        return 4.0 * size * self.discount ** math.log2(size)

    def price(self, size: int) -> Price:
        """Return the entry of a machine in the price book."""
        return Price(
            instance=f"machine-{size}", market="on-demand", accelerators=size, accelerator="A", region="any",
            billing_granularity_s=1e-3, billing_minimum_s=0.0, usd_per_hour=self.usd_per_hour(size),
            source="a simulation", date="2026-01-01",
        )  # fmt: skip

    def run(self, size: int, seed: int, generator: Generator) -> ScaledRun:
        """Simulate a run."""
        steps = round(self.samples(size) * math.exp(self.spread * generator.standard_normal()))
        rate = self.rate(size) * math.exp(0.02 * generator.standard_normal())
        training_s = steps / rate
        time_s = _START_UP_S + training_s * (1 + _SCORING)
        identity = Identity(
            time_s=time_s, start_up_s=_START_UP_S, steps=steps, training_s=training_s,
            scoring_s=training_s * _SCORING, interruptions_s=0.0,
        )  # fmt: skip
        wall_s = time_s + _SHUTDOWN_S
        return simulated_run(f"{size}-{seed}", self.price(size), identity, processes=size, wall_s=wall_s)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of the simulated ledgers of one scenario."""

    truth: Truth
    ledgers: int
    fastest: int
    """Ledgers whose choice for the least time has the least true time."""
    cheapest: int
    """Ledgers whose choice for the least money has the least true cost."""
    excess: float
    """Mean true cost of the choice for the least money ÷ least true cost, less 1."""
    measured: int
    """Measured configurations."""
    measured_time_held: int
    """How many of their intervals of the time hold the truth."""
    measured_cost_held: int


def bench_recommend(argv: Sequence[str]) -> int:
    """Simulate ledgers with known laws, and print how good the recommendations are.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks recommend",
        description="Simulate ledgers of machines with 1, 2, 4 and 8 accelerators whose rates, samples and prices are "
        "known, with five runs on each machine. Count how often "
        "report.py recommend chooses the truly fastest and cheapest machine, and how often its intervals hold the "
        "truth.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks recommend --ledgers 20",
    )
    args = parse_simulation(parser, argv, count="--ledgers", what="Simulated ledgers per scenario", default=200)
    generator, console = np.random.default_rng(args.seed), make_console()
    found = [try_out(truth, args.ledgers, generator) for truth in with_progress([*_truths()], console)]
    table = Table(
        "contention", "critical batch", "spread", "fastest", "cheapest", "excess cost", "time held", "cost held",
        box=None, pad_edge=False,
    )  # fmt: skip
    for each in found:
        of = each.truth
        table.add_row(
            f"{of.contention:g}", f"{of.critical_batch:g}", f"{of.spread:g}",
            _share(each.fastest, each.ledgers), _share(each.cheapest, each.ledgers), percent(each.excess),
            _share(each.measured_time_held, each.measured), _share(each.measured_cost_held, each.measured),
        )  # fmt: skip
    console.print(table)
    write_findings(args.json, seed=args.seed, scenarios=[*map(asdict, found)])
    return 0


def try_out(truth: Truth, ledgers: int, generator: Generator) -> Outcome:
    """Simulate one scenario.

    Args:
        truth: The scenario.
        ledgers: Number of simulated ledgers.
        generator: Random numbers.
    """
    least_usd, least_s = min(map(truth.cost_usd, _SIZES)), min(map(truth.median_s, _SIZES))
    fastest = cheapest = 0
    excess: list[float] = []
    held: list[tuple[bool, bool]] = []
    for _ in range(ledgers):
        runs = [truth.run(size, seed, generator) for size in _SIZES for seed in range(_SEEDS)]
        found = recommend(runs, Limits())
        for choice in found.choices:
            assert choice.option is not None
            size = choice.option.size.processes
            if choice.goal is Goal.TIME:
                fastest += math.isclose(truth.median_s(size), least_s)
            else:
                cheapest += math.isclose(truth.cost_usd(size), least_usd)
                excess.append(truth.cost_usd(size) / least_usd - 1)
        for option in found.options:
            size = option.size.processes
            if option.time is not None and option.cost is not None:
                (fast, slow), (cheap, dear) = option.time.interval, option.cost.interval
                held.append((fast <= truth.median_s(size) <= slow, cheap <= truth.cost_usd(size) <= dear))
    return Outcome(
        truth=truth,
        ledgers=ledgers,
        fastest=fastest,
        cheapest=cheapest,
        excess=float(np.mean(excess)),
        measured=len(held),
        measured_time_held=sum(time for time, _ in held),
        measured_cost_held=sum(cost for _, cost in held),
    )


def _truths() -> Iterator[Truth]:
    """Yield the scenarios."""
    for contention, critical in ((0.05, 4096.0), (0.2, 50_000.0)):
        for spread in (0.1, 0.3):
            yield Truth(contention=contention, critical_batch=critical, spread=spread, discount=0.9)


def _share(count: int, of: int) -> str:
    """Return a share in percent."""
    return percent(count / of) if of else "–"
