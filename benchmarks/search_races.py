"""``python -m benchmarks search_races``: searches on simulated landscapes whose best recipe is known."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from rich.table import Table

from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.population import decide_population
from ledger_lab.studies.search.race import decide_race
from ledger_lab.studies.search.situation import End, Situation, Start
from ledger_lab.studies.search.space import Values
from ledger_lab.studies.search.store import TrialStore
from ledger_lab.studies.search.trials import STOCK, Outcome, SeedRun, Trial
from ledger_lab.studies.search.view import best_trial

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BEST_S, _STOCK_TIMES = 100.0, 3.0
"""Time that the best values need to the target, without start-up [s], and that of the stock recipe ÷ it."""
_STARTUP_S = 5.0
"""Start-up of each training [s]."""
_ITERATION_S = 0.5
"""Time of an iteration on a machine without drift [s]."""
_MAX_S = 2400.0
"""Time of all iterations of a recipe [s]."""
_PARTS = 100
"""Parts of a training in which its speed is taken to be constant."""
_EPISODES = 256
"""Episodes of a held-out score."""
_MEMBERS, _ITERATIONS = 8, 40


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """Trainings whose speed is known.

    A training progresses from 0 to 1, where it reaches the target. Its speed depends on the values and on the progress.
    Each training has its own luck.
    """

    spread: float
    """Standard deviation of the logarithm of the time, between trainings."""
    steepness: float
    """How fast the logarithm of the time grows with the squared distance from the best values; 0 if nothing matters."""
    drift_per_h: float = 0.0
    """Growth of the machine's time per step in an hour."""
    falls: float = 0.0
    """Decades by which the best learning rate falls during a training."""
    number: int = 0
    """Seed of the noise."""

    def part_s(self, values: Values, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the median times that parts of a training take, without its start-up [s].

        Args:
            values: Values of the recipe; the stock recipe has none.
            parts: Progress in the middle of each part, in [0, 1].
        """
        if not values:
            return np.full(len(parts), _BEST_S / _PARTS * (_STOCK_TIMES if self.steepness else 1.0))
        distance = (math.log10(float(values["learning_rate"]) / 1e-3) - self.falls * (0.5 - parts)) ** 2  # type: ignore[arg-type]
        distance += (float(values["clip"]) - 0.2) ** 2 / 0.04  # type: ignore[arg-type]
        if values["schedule"] == "fixed":
            distance += 0.5
        else:
            distance += math.log10(float(values["kl_target"]) / 0.01) ** 2 / 2  # type: ignore[arg-type]
        return _BEST_S / _PARTS * np.exp(self.steepness * distance)

    def median_s(self, values: Values) -> float:
        """Return the median time of a recipe; the stock recipe has no values [s]."""
        return _STARTUP_S + float(self.part_s(values, _middles(0.0)).sum())

    def train(self, start: Start, iterations: int | None, at_s: float, progress: float) -> tuple[SeedRun, float]:
        """Return a training, and its progress at its end.

        Args:
            start: The training.
            iterations: Its iterations; ``None`` for those of its recipe.
            at_s: When it begins [s].
            progress: Its progress at its beginning, in [0, 1).
        """
        generator = np.random.default_rng([self.number, start.trial, start.seed])
        slower = 1 + self.drift_per_h * at_s / 3600
        luck = math.exp(generator.normal(0, self.spread))
        trained_s, progress = self._progress(start.values, iterations, progress, luck)
        time_s = (_STARTUP_S + trained_s) * slower
        cap_s = math.inf if start.cap_s is None else start.cap_s
        ended = Outcome.REACHED if progress >= 1 else Outcome.MISSED
        run = SeedRun(
            seed=start.seed,
            outcome=Outcome.CAPPED if time_s > cap_s else ended,
            wall_s=min(time_s, cap_s),
            usd=None,
            cap_s=start.cap_s,
            success=generator.binomial(_EPISODES, 0.95 * progress**2) / _EPISODES,
        )
        return run, progress

    def _progress(self, values: Values, iterations: int | None, begun: float, luck: float) -> tuple[float, float]:
        """Return how long a training goes on, without its start-up [s], and its progress at its end."""
        longest_s = _MAX_S if iterations is None else iterations * _ITERATION_S
        parts = _middles(begun)
        ends_s = np.cumsum(self.part_s(values, parts) * luck) * (1 - begun) * _PARTS / len(parts)
        done = int(np.searchsorted(ends_s, longest_s, side="right"))
        if done == len(parts):
            return float(ends_s[-1]), 1.0
        before_s = float(ends_s[done - 1]) if done else 0.0
        share = (done + (longest_s - before_s) / (float(ends_s[done]) - before_s)) / len(parts)
        return longest_s, begun + (1 - begun) * min(share, 1 - 1e-9)


def _middles(begun: float) -> NDArray[np.float64]:
    """Return the progress in the middle of each of the equal parts that are left of a training."""
    return begun + (1 - begun) * (np.arange(_PARTS) + 0.5) / _PARTS


def declared(budget_h: float, strategy: str = "tpe", number: int = 0) -> SearchDeclaration:
    """Return a search of three to four parameters."""
    is_population = strategy == "population"
    content = {
        "version": 1,
        "task": "T",
        "arguments": [str(number)],
        "space": {
            "learning_rate": {"type": "float", "low": 1e-5, "high": 1e-1, "log": True},
            "clip": {"type": "float", "low": 0.05, "high": 0.5},
            "schedule": {"type": "choice", "choices": ["adaptive", "fixed"]},
            "kl_target": {"type": "float", "low": 1e-3, "high": 1e-1, "log": True, "when": {"schedule": ["adaptive"]}},
        },
        "search_seeds": list(range(1, 1 + (_MEMBERS if is_population else 3))),
        "sealed_seeds": list(range(100, 110)),
        "budget_h": budget_h,
        "strategy": strategy,
        "population": {"iterations": _ITERATIONS} if is_population else None,
    }
    return msgspec.convert({**content, "name": f"s{number}"}, SearchDeclaration)


def play(declaration: SearchDeclaration, landscape: Landscape) -> tuple[Situation, list[Start]]:
    """Run a race or a population to its end; return how it stands, and all decisions.

    Args:
        declaration: The search.
        landscape: Where it searches.
    """
    decide = decide_race if declaration.is_race else decide_population
    iterations = None if declaration.is_race else _ITERATIONS
    situation = Situation(
        declaration=declaration, trials=[Trial(number=STOCK, values={})], store=TrialStore(declaration)
    )
    starts: list[Start] = []
    progress: dict[int | None, float] = {None: 0.0}
    at_s = 0.0
    while isinstance(start := decide(situation), Start):
        run, progress[start.trial] = landscape.train(start, iterations, at_s, progress[start.begins_with])
        situation, at_s = with_run(situation, start, run), at_s + run.wall_s
        starts.append(start)
    if not isinstance(start, End):
        raise AssertionError("a search with one training at a time never waits")
    return situation, starts


def with_run(situation: Situation, start: Start, run: SeedRun) -> Situation:
    """Return how a search stands with a training more, or with its new state."""
    new = Trial(number=start.trial, values=start.values, parent=start.begins_with)
    by_number = {trial.number: trial for trial in situation.trials}
    trial = by_number.get(start.trial, new)
    others = [each for each in trial.runs if each.seed != run.seed]
    by_number[start.trial] = replace(trial, runs=(*others, run))
    return replace(situation, trials=[by_number[number] for number in sorted(by_number)])


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one search found."""

    times_best: float
    """Median time of the best recipe, trained from random networks, ÷ that of the best values."""
    trainings: int
    """Trainings of the race or the population."""
    spent_h: float
    """Their time, added up [h]."""


def search(declaration: SearchDeclaration, landscape: Landscape) -> Found:
    """Run a search to its end."""
    situation, starts = play(declaration, landscape)
    best = best_trial(situation)
    return Found(
        times_best=math.inf if best is None else landscape.median_s(best.values) / (_STARTUP_S + _BEST_S),
        trainings=len(starts),
        spent_h=situation.spent,
    )


LANDSCAPES = {
    "steep": Landscape(spread=0.2, steepness=1.0),
    "steep, noisy": Landscape(spread=0.5, steepness=1.0),
    "steep, drifting": Landscape(spread=0.2, steepness=1.0, drift_per_h=0.2),
    "moving": Landscape(spread=0.2, steepness=1.0, falls=3.0),
    "flat": Landscape(spread=0.3, steepness=0.0),
}
"""Landscapes. On the moving one, no recipe is much better than the stock recipe; on the flat one, none is."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Medians of what the searches on one landscape found."""

    landscape: str
    strategy: str
    searches: int
    times_best: float
    """As :attr:`Found.times_best`."""
    trainings: float
    spent_h: float
    """As :attr:`Found.spent_h` [h]."""


def tally(landscape: str, strategy: str, searches: int, budget_h: float, seed: int) -> Tally:
    """Run searches on one landscape.

    Args:
        landscape: Its name.
        strategy: Strategy of the searches.
        searches: Their number.
        budget_h: Budget of each search [h].
        seed: Number of the first search.
    """
    numbers = range(seed * 1000, seed * 1000 + searches)
    found = [
        search(declared(budget_h, strategy, number), replace(LANDSCAPES[landscape], number=number))
        for number in numbers
    ]
    return Tally(
        landscape=landscape,
        strategy=strategy,
        searches=searches,
        times_best=float(np.median([each.times_best for each in found])),
        trainings=float(np.median([each.trainings for each in found])),
        spent_h=float(np.median([each.spent_h for each in found])),
    )


def bench_search_races(argv: Sequence[str]) -> int:
    """Run searches on each landscape, by each strategy, and print what they found."""
    parser = argparse.ArgumentParser(prog="benchmarks search_races", description=__doc__)
    parser.add_argument("--budget_h", type=float, default=3.0, help="Budget of each search (default: 3).")
    args = parse_simulation(parser, argv, count="--races", what="Searches on each landscape", default=50)
    console = make_console()
    cases = [(landscape, strategy) for landscape in LANDSCAPES for strategy in ("tpe", "random", "population")]
    tallies = [tally(*case, args.races, args.budget_h, args.seed) for case in with_progress(cases, console)]
    table = Table("landscape", "strategy", "time ÷ best", "trainings", "hours")
    for each in tallies:
        figures = (f"{each.times_best:.2f}", f"{each.trainings:.0f}", f"{each.spent_h:.2f}")
        table.add_row(each.landscape, each.strategy, *figures)
    console.print(table)
    write_findings(args.json, budget_h=args.budget_h, seed=args.seed, tallies=[asdict(each) for each in tallies])
    return 0
