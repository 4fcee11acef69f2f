"""``python -m benchmarks search_races``: searches on simulated landscapes whose best recipe and schedule are known."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, get_args

import numpy as np
from rich.table import Table

from benchmarks.simulation import parse_simulation, with_progress
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.findings import write_findings
from ledger_lab.studies.search.chains import Chain
from ledger_lab.studies.search.decisions import Decision, End, Situation, Start
from ledger_lab.studies.search.declaration import Population, SearchDeclaration, Strategy
from ledger_lab.studies.search.ending import decide_next
from ledger_lab.studies.search.race import decide_race
from ledger_lab.studies.search.result import summarize_search
from ledger_lab.studies.search.space import Parameter, Space, Values
from ledger_lab.studies.search.trials import STOCK, Outcome, SearchTraining, SeedRun, Trial
from ledger_lab.units import MISSING, percent

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
_DRAWS = 1000
"""Chains of trainings whose mean is taken as the true time."""


@dataclass(frozen=True, kw_only=True)
class Landscape:
    """Trainings whose speed is known.

    A training progresses from 0 to 1, where it reaches the target. Its speed depends on the values and on the progress.
    Each training has its own luck, also each training of a chain: a schedule is lucky and unlucky in turn.
    """

    spread: float
    """Standard deviation of the logarithm of the time, between trainings."""
    steepness: float
    """How fast the logarithm of the time grows with the squared distance from the best values; 0 if nothing matters."""
    drift_per_h: float = 0.0
    """Growth of the machine's time per step in an hour."""
    falls: float = 0.0
    """Decades by which the best learning rate falls during a training. If it does, a schedule is better than any
    recipe."""
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

    def median_of_chain_s(self, chain: Chain) -> float:
        """Return the time of a chain of trainings without luck [s]."""
        time_s = progress = 0.0
        for link in chain:
            trained_s, progress = self._progress(link.values, link.iterations, progress, 1.0)
            time_s += _STARTUP_S + trained_s
        return time_s if progress >= 1 else math.inf

    def mean_of_chain_s(self, chain: Chain) -> float:
        """Return the mean time of a chain of trainings with luck, on a machine without drift [s]."""
        generator = np.random.default_rng([self.number, _DRAWS])
        times_s = []
        for luck in np.exp(generator.normal(0, self.spread, (_DRAWS, len(chain)))):
            time_s = progress = 0.0
            for link, own in zip(chain, luck, strict=True):
                if progress >= 1:
                    break
                trained_s, progress = self._progress(link.values, link.iterations, progress, float(own))
                time_s += _STARTUP_S + trained_s
            times_s.append(time_s)
        return float(np.mean(times_s))

    def train(self, start: Start, at_s: float) -> SeedRun:
        """Return a training of a race that begins at a time [s]."""
        return self.train_from(start, at_s, 0.0)[0]

    def train_from(self, start: Start, at_s: float, progress: float) -> tuple[SeedRun, float]:
        """Return a training, and its progress at its end.

        Args:
            start: The training.
            at_s: When it begins [s].
            progress: Its progress at its beginning, in [0, 1).
        """
        generator = np.random.default_rng([self.number, start.place.trial, start.place.repeat, start.seed])
        slower = 1 + self.drift_per_h * at_s / 3600
        luck = math.exp(generator.normal(0, self.spread))
        trained_s, progress = self._progress(start.values, start.iterations, progress, luck)
        time_s = (_STARTUP_S + trained_s) * slower
        cap_s = math.inf if start.cap_s is None else start.cap_s
        ended = Outcome.REACHED if progress >= 1 else Outcome.MISSED
        run = SeedRun(
            seed=start.seed,
            outcome=Outcome.CAPPED if time_s > cap_s else ended,
            wall_s=min(time_s, cap_s),
            usd=None,
            cap_s=start.cap_s,
            started_s=at_s,
            step_s=1e-4 * slower,
            repeat=start.place.repeat,
            sealed=start.place.sealed,
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
    population = Population(iterations=_ITERATIONS) if strategy == "population" else None
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
        search_seeds=tuple(range(1, 1 + (_MEMBERS if population else 3))),
        sealed_seeds=tuple(range(100, 110)),
        budget_h=budget_h,
        strategy=strategy,  # type: ignore[arg-type]
        population=population,
    )


def with_run(trials: Sequence[Trial], start: Start, run: SeedRun) -> list[Trial]:
    """Return the trials with a training more, or with its new state."""
    by_number = {trial.number: trial for trial in trials}
    parent = None if start.begins_with is None or start.place.sealed else start.begins_with.place.trial
    new = Trial(number=start.place.trial, values=start.values, parent=parent)
    trial = by_number.get(start.place.trial, new)
    others = [each for each in trial.runs if (each.seed, each.repeat) != (run.seed, run.repeat)]
    return [*(each for each in trials if each.number != trial.number), replace(trial, runs=(*others, run))]


def play(
    declaration: SearchDeclaration,
    landscape: Landscape,
    decide: Callable[[Situation], Decision] = decide_race,
) -> tuple[list[Trial], list[Start]]:
    """Run a race, a population or a whole search to its end; return the trials and all decisions.

    Args:
        declaration: The search.
        landscape: Where it searches.
        decide: Decides what comes next.
    """
    trials: list[Trial] = []
    starts: list[Start] = []
    progress: dict[SearchTraining | None, float] = {None: 0.0}
    at_s = 0.0
    while isinstance(start := decide(Situation.of(declaration, trials)), Start):
        run, reached = landscape.train_from(start, at_s, progress[start.begins_with])
        progress[SearchTraining(start.place, start.seed)] = reached
        trials, at_s = with_run(trials, start, run), at_s + run.wall_s
        starts.append(start)
    if not isinstance(start, End):
        raise AssertionError("a search with one training at a time never waits")
    return trials, starts


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one search found."""

    times_best: float
    """Median time of the found recipe or schedule ÷ that of the best values at all times."""
    trainings: int
    """Trainings before the sealed seeds."""
    spent_h: float
    """Their time, added up [h]."""
    claims: bool
    """Whether the end claims a gain over the stock recipe."""
    is_true: bool
    """Whether what is claimed is truly faster; true without a claim."""
    intervals: int
    """Intervals of its comparison; 0 without one."""
    all_hold: bool
    """Whether all of them contain the true ratio of the mean times."""


def search(declaration: SearchDeclaration, landscape: Landscape) -> Found:
    """Run a search to its end."""
    trials, _ = play(declaration, landscape, decide_next)
    result = summarize_search(Situation.of(declaration, trials))

    def median_s(number: int) -> float:
        return landscape.median_of_chain_s(result.chain(number))

    claims = [each.trial for each in result.comparisons if each.is_better]
    has_found = result.best is not None and (declaration.population is None or result.finalists)
    best_s = median_s(result.best.number) if has_found and result.best is not None else math.inf
    stock_s = landscape.mean_of_chain_s(result.chain(STOCK))
    ratios = [landscape.mean_of_chain_s(result.chain(each.trial)) / stock_s for each in result.comparisons]
    return Found(
        times_best=best_s / (_STARTUP_S + _BEST_S),
        trainings=sum(not run.sealed for trial in trials for run in trial.runs),
        spent_h=result.spent,
        claims=bool(claims),
        is_true=all(median_s(number) < landscape.median_s({}) for number in claims),
        intervals=len(ratios),
        all_hold=all(
            each.ratio_low <= ratio <= each.ratio_high for each, ratio in zip(result.comparisons, ratios, strict=True)
        ),
    )


LANDSCAPES = {
    "steep": Landscape(spread=0.2, steepness=1.0),
    "steep, noisy": Landscape(spread=0.5, steepness=1.0),
    "steep, drifting": Landscape(spread=0.2, steepness=1.0, drift_per_h=0.2),
    "moving": Landscape(spread=0.2, steepness=1.0, falls=3.0),
    "flat": Landscape(spread=0.3, steepness=0.0),
}
"""Landscapes. On the moving one, the best recipe is hardly better than the stock recipe, and the best schedule is much
better. On the flat one, nothing is better than the stock recipe, so that each claim is false."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What the searches on one landscape found."""

    landscape: str
    strategy: str
    searches: int
    times_best: float
    """Median of :attr:`Found.times_best`."""
    trainings: float
    """Median of :attr:`Found.trainings`."""
    spent_h: float
    """Median of :attr:`Found.spent_h` [h]."""
    claims: int
    """Searches that claim a gain."""
    false_claims: int
    """Searches that claim a gain for what is not faster."""
    compared: int
    """Searches with a comparison."""
    all_hold: int
    """Those of them whose intervals all contain the true ratio."""


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
        claims=sum(each.claims for each in found),
        false_claims=sum(not each.is_true for each in found),
        compared=sum(each.intervals > 0 for each in found),
        all_hold=sum(each.intervals > 0 and each.all_hold for each in found),
    )


def bench_search_races(argv: Sequence[str]) -> int:
    """Run searches on each landscape, by each strategy, and print what they found."""
    parser = argparse.ArgumentParser(prog="benchmarks search_races", description=__doc__)
    parser.add_argument("--budget_h", type=float, default=3.0, help="Budget of each search (default: 3).")
    args = parse_simulation(parser, argv, count="--races", what="Searches on each landscape", default=50)
    console = make_console()
    cases = [(landscape, strategy) for landscape in LANDSCAPES for strategy in get_args(Strategy.__value__)]
    tallies = [tally(*case, args.races, args.budget_h, args.seed) for case in with_progress(cases, console)]
    table = Table(
        "landscape", "strategy", "time ÷ best", "trainings", "hours", "claims a gain", "false claims", "intervals hold"
    )
    for each in tallies:
        shares = (percent(count / each.searches, 0) for count in (each.claims, each.false_claims))
        figures = (f"{each.times_best:.2f}", f"{each.trainings:.0f}", f"{each.spent_h:.2f}")
        holds = percent(each.all_hold / each.compared, 0) if each.compared else MISSING
        table.add_row(each.landscape, each.strategy, *figures, *shares, holds)
    console.print(table)
    write_findings(args.json, budget_h=args.budget_h, seed=args.seed, tallies=[asdict(each) for each in tallies])
    return 0
