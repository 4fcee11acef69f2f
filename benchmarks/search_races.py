"""``python -m benchmarks search_races``: races on simulated landscapes whose best recipe is known."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from rich.table import Table

from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.search.charges import Charges
from ledger_lab.search.declaration import SearchDeclaration
from ledger_lab.search.ending import SealedRun, compare, finalists
from ledger_lab.search.race import CAP_RATIO, End, Start, decide, incumbent
from ledger_lab.search.space import Parameter, Space, Values
from ledger_lab.search.trials import Outcome, SeedRun, Trial
from ledger_lab.terminal.console import make_console
from ledger_lab.terminal.findings import write_findings
from ledger_lab.units import percent

_BEST_S, _STOCK_TIMES = 100.0, 3.0
_MAX_S = 2400.0
_BILL_EVERY_H = 1.0


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """Times to the target, whose medians are known."""

    spread: float
    """Standard deviation of the logarithm of the time, between seeds."""
    steepness: float
    """How fast the logarithm of the time grows with the squared distance from the best recipe; 0 if nothing matters."""
    drift_per_h: float = 0.0
    """Growth of the machine's time per step in an hour."""
    number: int = 0
    """Seed of the noise."""

    def median_s(self, values: Values) -> float:
        """Return the median time of a recipe; the stock recipe has no values [s]."""
        if not values:
            return _BEST_S * (_STOCK_TIMES if self.steepness else 1.0)
        distance = (math.log10(float(values["learning_rate"]) / 1e-3)) ** 2  # type: ignore[arg-type]
        distance += (float(values["clip"]) - 0.2) ** 2 / 0.04  # type: ignore[arg-type]
        if values["schedule"] == "fixed":
            distance += 0.5
        else:
            distance += math.log10(float(values["kl_target"]) / 0.01) ** 2 / 2  # type: ignore[arg-type]
        return _BEST_S * math.exp(self.steepness * distance)

    def train(self, start: Start, at_s: float) -> SeedRun:
        """Return a training that begins at a time [s]."""
        key = [self.number, start.place.trial, start.place.repeat, start.seed]
        noise = np.random.default_rng(key).normal(0, self.spread)
        slower = 1 + self.drift_per_h * at_s / 3600
        time_s = self.median_s(start.values) * math.exp(noise) * slower
        cap_s = math.inf if start.cap_s is None else start.cap_s
        wall_s = min(time_s, _MAX_S * slower, cap_s)
        outcome = Outcome.REACHED if wall_s == time_s else Outcome.CAPPED if wall_s == cap_s else Outcome.MISSED
        return SeedRun(
            seed=start.seed,
            outcome=outcome,
            wall_s=wall_s,
            usd=None,
            cap_s=start.cap_s,
            started_s=at_s,
            step_s=1e-4 * slower,
            repeat=start.place.repeat,
        )


def declared(budget_h: float, strategy: str = "tpe", number: int = 0) -> SearchDeclaration:
    """Return a search of three to four parameters."""
    return SearchDeclaration(
        name=f"s{number}",
        about="simulated",
        task="T",
        arguments=(str(number),),
        space=Space(
            parameters=(
                Parameter(name="learning_rate", low=1e-5, high=1e-1, log=True),
                Parameter(name="clip", low=0.05, high=0.5),
                Parameter(name="schedule", choices=("adaptive", "fixed")),
                Parameter(name="kl_target", low=1e-3, high=1e-1, log=True, when={"schedule": ("adaptive",)}),
            )
        ),
        search_seeds=(1, 2, 3),
        sealed_seeds=tuple(range(100, 110)),
        budget_h=budget_h,
        strategy=strategy,  # type: ignore[arg-type]
    )


def with_run(trials: Sequence[Trial], start: Start, run: SeedRun) -> list[Trial]:
    """Return the trials with a training more, or with its new state."""
    by_number = {trial.number: trial for trial in trials}
    trial = by_number.get(start.place.trial, Trial(number=start.place.trial, values=start.values))
    others = [each for each in trial.runs if (each.seed, each.repeat) != (run.seed, run.repeat)]
    return [*(each for each in trials if each.number != trial.number), replace(trial, runs=(*others, run))]


def play(declaration: SearchDeclaration, landscape: Landscape) -> tuple[list[Trial], list[Start]]:
    """Run a race to its end; return the trials and all decisions."""
    trials: list[Trial] = []
    starts: list[Start] = []
    at_s = 0.0
    while isinstance(start := decide(declaration, trials), Start):
        run = landscape.train(start, at_s)
        trials, at_s = with_run(trials, start, run), at_s + run.wall_s
        starts.append(start)
    if not isinstance(start, End):
        raise AssertionError("a race with one training at a time never waits")
    return trials, starts


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one race found."""

    times_best: float
    """Median time of the found recipe ÷ that of the best one."""
    trials: int
    claims: bool
    """Whether the end claims a gain over the stock recipe."""
    is_true: bool
    """Whether the claimed recipe is truly faster; true without a claim."""


def search(declaration: SearchDeclaration, landscape: Landscape) -> Found:
    """Run a race and its end."""
    trials, _ = play(declaration, landscape)
    charges = Charges.of(declaration, sorted(trials, key=lambda trial: trial.number), None)
    best = incumbent(declaration, trials, charges)
    if best is None:
        return Found(times_best=math.inf, trials=len(trials), claims=False, is_true=True)
    stock_s = landscape.median_s({})
    generator = np.random.default_rng([landscape.number, 7])
    stock = _sealed(declaration, stock_s, landscape, math.inf, generator)
    cap_s = CAP_RATIO * max(run.bill for run in stock.values())
    finals = finalists(declaration, trials, charges)
    medians = {trial.number: landscape.median_s(trial.values) for trial in finals}
    runs = {number: _sealed(declaration, s, landscape, cap_s, generator) for number, s in medians.items()}
    claims = [each for each in compare(stock, runs, 3600 * _BILL_EVERY_H) if each.is_better]
    return Found(
        times_best=landscape.median_s(best.values) / _BEST_S,
        trials=len(trials) - 1,
        claims=bool(claims),
        is_true=all(medians[each.trial] < stock_s for each in claims),
    )


def _sealed(
    declaration: SearchDeclaration, median_s: float, landscape: Landscape, cap_s: float, generator: np.random.Generator
) -> dict[int, SealedRun]:
    """Return trainings on the sealed seeds."""
    times_s = median_s * np.exp(generator.normal(0, landscape.spread, len(declaration.sealed_seeds)))
    return {
        seed: SealedRun(reached=bool(time_s <= cap_s), bill=float(min(time_s, cap_s)))
        for seed, time_s in zip(declaration.sealed_seeds, times_s, strict=True)
    }


LANDSCAPES = {
    "steep": Landscape(spread=0.2, steepness=1.0),
    "steep, noisy": Landscape(spread=0.5, steepness=1.0),
    "steep, drifting": Landscape(spread=0.2, steepness=1.0, drift_per_h=0.2),
    "flat": Landscape(spread=0.3, steepness=0.0),
}
"""Landscapes. On the flat one, nothing is better than the stock recipe, so that each claim is false."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What the races on one landscape found."""

    landscape: str
    proposals: str
    races: int
    times_best: float
    """Median of :attr:`Found.times_best`."""
    trials: float
    """Median number of trials besides the stock recipe."""
    claims: int
    """Races that claim a gain."""
    false_claims: int
    """Races that claim a gain for a recipe that is not faster."""


def tally(landscape: str, proposals: str, races: int, budget_h: float, seed: int) -> Tally:
    """Run races on one landscape.

    Args:
        landscape: Its name.
        proposals: Strategy of the races.
        races: Their number.
        budget_h: Budget of each race [h].
        seed: Number of the first race.
    """
    numbers = range(seed * 1000, seed * 1000 + races)
    found = [
        search(declared(budget_h, proposals, number), replace(LANDSCAPES[landscape], number=number))
        for number in numbers
    ]
    return Tally(
        landscape=landscape,
        proposals=proposals,
        races=races,
        times_best=float(np.median([each.times_best for each in found])),
        trials=float(np.median([each.trials for each in found])),
        claims=sum(each.claims for each in found),
        false_claims=sum(not each.is_true for each in found),
    )


def bench_search_races(argv: Sequence[str]) -> int:
    """Run races on each landscape, by TPE and at random, and print what they found."""
    parser = argparse.ArgumentParser(prog="benchmarks search_races", description=__doc__)
    parser.add_argument("--budget_h", type=float, default=3.0, help="Budget of each race (default: 3).")
    args = parse_simulation(parser, argv, count="--races", what="Races on each landscape", default=50)
    console = make_console()
    cases = [(landscape, proposals) for landscape in LANDSCAPES for proposals in ("tpe", "random")]
    tallies = [tally(*case, args.races, args.budget_h, args.seed) for case in with_progress(cases, console)]
    table = Table("landscape", "proposals", "time ÷ best", "trials", "claims a gain", "false claims")
    for each in tallies:
        shares = (percent(count / each.races, 0) for count in (each.claims, each.false_claims))
        table.add_row(each.landscape, each.proposals, f"{each.times_best:.2f}", f"{each.trials:.0f}", *shares)
    console.print(table)
    write_findings(args.json, budget_h=args.budget_h, seed=args.seed, tallies=[asdict(each) for each in tallies])
    return 0
