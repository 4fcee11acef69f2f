"""``python -m benchmarks scaling_fits``: how often the intervals of scaling laws hold the true figures."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.random import Generator
from rich.table import Table

from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.reports.ranks import gradient_noise_scale
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.studies.scaling.laws import BatchFit, Figure, Law, RateFit, TargetRun
from ledger_lab.units import percent

_SPREADS = (0.01, 0.1)
"""Standard deviation of the logarithm of a rate."""
_SPREADS_OF_SAMPLES = (0.1, 0.3)
"""The same of the samples to the target; trainings differ more in these than in their speed."""
_BATCHES = (1024, 2048, 4096, 8192, 16384)
_SEEDS = 3
"""Runs of each size."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How many of the simulated sets of runs had an interval that holds the truth."""

    figure: str
    truth: float
    about: str
    """Sizes, spread and censoring."""
    trials: int
    """Sets of runs that could be fitted."""
    held: int


type Estimate = tuple[str, float, Callable[[Generator], Figure | None]]
"""Figure and circumstances, truth, and a function that simulates runs and returns the estimate, if there is one."""


def bench_scaling_fits(argv: Sequence[str]) -> int:
    """Simulate runs with known laws, and print how often the intervals hold the truth.

    Args:
        argv: Command line without the program's name.

    Returns:
        0.

    Raises:
        UserError: If an argument makes no sense.
    """
    parser = argparse.ArgumentParser(
        prog="benchmarks scaling_fits",
        description="Simulate runs whose contention, critical batch and gradient noise are known, fit the "
        "laws to them, and count how often the 95 % intervals hold the true figures. Each size has three runs. Some "
        "runs end short of their target.",
        epilog="Example: ./isaaclab.sh -p -m benchmarks scaling_fits --trials 100",
    )
    args = parse_simulation(parser, argv, count="--trials", what="Simulated sets of runs per scenario", default=500)
    generator, console = np.random.default_rng(args.seed), make_console()
    scenarios = [*_rates(), *_batches(), *_noise()]
    found = [_count(scenario, args.trials, generator) for scenario in with_progress(scenarios, console)]
    table = Table("figure", "truth", "runs", "fitted", "interval holds it", box=None, pad_edge=False)
    for each in found:
        share = percent(each.held / each.trials) if each.trials else "–"
        table.add_row(each.figure, f"{each.truth:g}", each.about, str(each.trials), share)
    console.print(table)
    lowest = min(each.held / each.trials for each in found if each.trials)
    console.print(f"lowest share: {percent(lowest)} of {args.trials} sets of runs")
    write_findings(args.json, seed=args.seed, lowest_share=lowest, scenarios=[*map(asdict, found)])
    return 0


def _count(scenario: Estimate, trials: int, generator: Generator) -> Coverage:
    """Simulate one scenario."""
    name, truth, estimate = scenario
    fitted = held = 0
    for _ in range(trials):
        figure = estimate(generator)
        if figure is None or figure.interval is None:
            continue
        fitted += 1
        low, high = figure.interval
        # A share of 0 lies on the border: a fitted one is tiny, but never 0.
        held += low <= max(truth, 1e-6) and truth <= high
    figure_name, _, about = name.partition(": ")
    return Coverage(figure=figure_name, truth=truth, about=about, trials=fitted, held=held)


def _rates() -> Iterator[Estimate]:
    """Yield the scenarios of rates."""
    for contention, spread, largest in itertools.product((0.0, 0.02, 0.17), _SPREADS, (4, 8, 64)):
        sizes = _sizes(largest)
        for law in (Law.AMDAHL, Law.GUSTAFSON):
            about = f"{law}, up to {largest} processes, spread {percent(spread, 0)}"
            yield f"contention: {about}", contention, rate_of(law, sizes, contention, 0.0, spread, _contention)


def _sizes(largest: int) -> list[int]:
    """Return numbers of processes, each run's."""
    return [2**power for power in range(int(math.log2(largest)) + 1) for _ in range(_SEEDS)]


def _contention(fit: RateFit) -> Figure | None:
    return fit.contention


def rate_of(
    law: Law,
    sizes: Sequence[int],
    contention: float,
    coherency: float,
    spread: float,
    read: Callable[[RateFit], Figure | None],
) -> Callable[[Generator], Figure | None]:
    """Return a function that simulates runs with a law, and fits it."""
    counts = np.array(sizes, float)
    if law is Law.GUSTAFSON:
        rates = counts - contention * (counts - 1)
    else:
        rates = counts / (1 + contention * (counts - 1) + coherency * counts * (counts - 1))

    def estimate(generator: Generator) -> Figure | None:
        noise = np.exp(spread * generator.standard_normal(len(counts)))
        return read(RateFit(law, sizes, [*(1000.0 * rates * noise)], seed=int(generator.integers(2**32))))

    return estimate


def _batches() -> Iterator[Estimate]:
    """Yield the scenarios of samples to the target."""
    for critical, spread, limited in itertools.product((1000.0, 5000.0, 50_000.0), _SPREADS_OF_SAMPLES, (False, True)):
        limit = 1 + _BATCHES[-2] / critical if limited else math.inf
        ends = f"half of those with {_BATCHES[-2]} miss the target" if limited else "all reach it"
        about = f"batches {_BATCHES[0]} to {_BATCHES[-1]}, spread {percent(spread, 0)}, {ends}"
        yield f"critical batch: {about}", critical, batch_of(critical, spread, limit, lambda fit: fit.critical_batch)
        yield f"E_min: {about}", 1.0, batch_of(critical, spread, limit, lambda fit: fit.fewest_samples)


def batch_of(
    critical: float, spread: float, limit: float, read: Callable[[BatchFit], Figure], seeds: int = _SEEDS
) -> Callable[[Generator], Figure | None]:
    """Return a function that simulates trainings with several batches, and fits the law of their samples."""

    def estimate(generator: Generator) -> Figure | None:
        runs = []
        for batch in _BATCHES * seeds:
            samples = (1 + batch / critical) * math.exp(spread * generator.standard_normal())
            reached = samples < limit
            runs.append(TargetRun(batch=batch, samples=min(samples, limit), reached=reached, limit=limit))
        try:
            return read(BatchFit(runs, seed=int(generator.integers(2**32))))
        except ValueError:  # too few batches with runs that reached the target
            return None

    return estimate


def _noise() -> Iterator[Estimate]:
    """Yield the scenarios of gradients."""
    for scale, processes in itertools.product((100.0, 3000.0), (2, 8)):
        about = f"{processes} processes of 1000 samples, 100 iterations of 20 steps"
        yield f"gradient noise scale: {about}", scale, gradients_of(scale, processes)


def gradients_of(
    scale: float, processes: int, batch: int = 1000, iterations: int = 100
) -> Callable[[Generator], Figure | None]:
    """Return a function that simulates the gradients of a training, whose true one varies, and estimates their noise.

    The gradients have 200 parameters, each with noise of the same size; the steps of an iteration share some of it.
    """
    parameters, steps = 200, 20

    def estimate(generator: Generator) -> Figure | None:
        true = generator.standard_normal((iterations, 1, 1, parameters)) / math.sqrt(parameters)
        shape = (iterations, steps, processes, parameters)
        shared = generator.standard_normal((iterations, 1, processes, parameters))
        noise = (shared + generator.standard_normal(shape)) * math.sqrt(scale / batch / parameters / 2)
        gradients = true + noise
        own = (gradients**2).sum(axis=3).reshape(-1, processes)
        average = (gradients.mean(axis=2) ** 2).sum(axis=2).reshape(-1)
        value, interval = gradient_noise_scale(own, average, batch, block=steps, seed=int(generator.integers(2**32)))
        return Figure(value=value, interval=interval)

    return estimate
