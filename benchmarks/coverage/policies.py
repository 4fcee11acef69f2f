"""Cases of the success of policies: intervals, proofs, and comparisons of two policies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.random import Generator

from benchmarks.coverage.case import Case, is_within, one_by_one
from benchmarks.verdict import passed_proofs
from ledger_lab.ledger.costs.few_runs import lower_bound
from ledger_lab.panels import VerdictRule, compare_paired, compare_proven, wilson_interval

_EPISODES = (32, 256)
_SUCCESS = (0.5, 0.85, 0.9, 0.95, 0.99)
_RULE = VerdictRule(0.9)
_CONFIRMATIONS, _LATER = 20, 6
"""Most proofs of a run, and the number from which on they are examined separately, too."""

type Simulation = Callable[[Generator, int], tuple[int, int]]


def _success(episodes: int, rate: float) -> Simulation:
    """Simulate the interval of a policy on a panel."""

    def simulate(generator: Generator, trials: int) -> tuple[int, int]:
        counts = np.bincount(generator.binomial(episodes, rate, trials), minlength=episodes + 1)
        missed = [not is_within(rate, wilson_interval(won, episodes)) for won in range(episodes + 1)]
        return trials, int(counts[missed].sum())

    return simulate


def _proven_by_evaluate(episodes: int, rate: float) -> Simulation:
    """Simulate the mark with which ``evaluate.py`` says that a policy reaches a target just above its success."""

    def simulate(generator: Generator, trials: int) -> tuple[int, int]:
        won = generator.binomial(episodes, rate, trials)
        needed = next((k for k in range(episodes + 1) if lower_bound(k, episodes) > rate), episodes + 1)
        return trials, int((won >= needed).sum())

    return simulate


def _paired(episodes: int, rate: float, kept: float) -> Simulation:
    """Simulate the comparison of two equal policies, which share the outcomes of some episodes."""

    def report(generator: Generator) -> bool:
        first, second = generator.random((2, episodes)) < rate
        second = np.where(generator.random(episodes) < kept, first, second)
        return bool(is_within(0.0, compare_paired(first.tolist(), second.tolist()).interval))

    return one_by_one(report)


def _proven(cells: Sequence[float], episodes: int, since: int) -> Simulation:
    """Simulate the interval of a policy that a run proves, at a certain proof or later."""
    rate = round(float(np.mean(cells)), 9)

    def simulate(generator: Generator, trials: int) -> tuple[int, int]:
        passed = passed_proofs(cells, _RULE, episodes, trials, generator, last=_CONFIRMATIONS)
        intervals = [proof.interval() for number, proof in passed if number >= since]
        return len(intervals), sum(not is_within(rate, each) for each in intervals)

    return simulate


def _falsely_proven(cells: Sequence[float], episodes: int) -> Simulation:
    """Simulate runs that prove a policy below the target."""

    def simulate(generator: Generator, trials: int) -> tuple[int, int]:
        return trials, len(passed_proofs(cells, _RULE, episodes, trials, generator, last=_CONFIRMATIONS))

    return simulate


def _compared(rates: tuple[float, float], episodes: int) -> Simulation:
    """Simulate the comparison of two proven policies by their proofs."""

    def simulate(generator: Generator, trials: int) -> tuple[int, int]:
        sides = [passed_proofs([rate], _RULE, episodes, trials, generator, last=_CONFIRMATIONS) for rate in rates]
        found = [compare_proven(one, other).interval for (_, one), (_, other) in zip(*sides, strict=False)]
        return len(found), sum(not is_within(rates[1] - rates[0], each) for each in found)

    return simulate


def _cases() -> Iterator[Case]:
    """Yield all cases."""
    for episodes, rate in itertools.product(_EPISODES, _SUCCESS):
        about = f"true success {rate:.0%}"
        yield Case(figure="success of a policy", about=about, n=episodes, simulate=_success(episodes, rate), times=100)
        yield Case(
            figure="policy marked as proven by evaluate.py",
            about=f"{about}, just below the target",
            n=episodes,
            simulate=_proven_by_evaluate(episodes, rate),
            times=100,
        )
        for kept in (0.0, 0.7):
            yield Case(
                figure="comparison of two policies on the same episodes",
                about=f"both {rate:.0%}, {kept:.0%} of the outcomes in common",
                n=episodes,
                simulate=_paired(episodes, rate, kept),
            )
    # Rates of the cells, relative to the mean: equally difficult, or as unlike as can be.
    for episodes, worst in itertools.product((64, 256), (0.0, 0.1, 0.28)):
        for rate in (0.9, 0.905, 0.92, 0.99):
            cells = _cells(rate, worst)
            if cells is None:
                continue
            for since in (1, _LATER):
                late = f", at proof {since} or later" if since > 1 else ""
                yield Case(
                    figure="success of a proven policy that reaches its target",
                    about=f"true success {rate:.1%}{_named(cells)}{late}",
                    n=episodes,
                    simulate=_proven(cells, episodes, since),
                    times=20,
                )
        for rate in (0.88, 0.8999):
            cells = _cells(rate, worst)
            if cells is not None:
                yield Case(
                    figure="proof of a policy below its target of 90 %",
                    about=f"true success {rate:.2%}{_named(cells)}",
                    n=episodes,
                    simulate=_falsely_proven(cells, episodes),
                    times=20,
                )
    for rates in ((0.9, 0.9), (0.9, 0.95), (0.92, 0.99)):
        yield Case(
            figure="comparison of two proven policies",
            about=f"true success {rates[0]:.0%} and {rates[1]:.0%}",
            n=256,
            simulate=_compared(rates, 256),
            times=20,
        )


def _cells(rate: float, worst: float) -> tuple[float, ...] | None:
    """Return cells with a mean rate, of which one is worse; ``None`` if this is not possible."""
    if not worst:
        return (rate,)
    others = rate + worst / 3
    return (others, others, others, rate - worst) if others <= 1 else None


def _named(cells: Sequence[float]) -> str:
    """Return the rates of several cells in words."""
    return f", cells {', '.join(f'{rate:.1%}' for rate in cells)}" if len(cells) > 1 else ""


CASES = tuple(_cases())
