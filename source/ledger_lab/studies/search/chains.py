"""Chains: the trainings that a finalist runs on a sealed seed, each beginning with the last policy of the one before.

A finalist of a race has one recipe, so its chain has one link. A finalist of a population has a schedule, so its chain
has a link for each change of its values.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.studies.search.decisions import Start
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.population import lineage
from ledger_lab.studies.search.space import Values
from ledger_lab.studies.search.trials import Outcome, Place, SearchTraining, SeedRun, Trial


@dataclass(frozen=True, kw_only=True)
class Link:
    """One training of a chain."""

    trial: int
    """The trial whose values it has."""
    values: Values
    iterations: int | None
    """Iterations to train; ``None`` for those of the stock recipe."""


type Chain = Sequence[Link]


def chain_of(declaration: SearchDeclaration, trials: Sequence[Trial], trial: Trial) -> Chain:
    """Return the chain of a finalist, or of the stock recipe.

    Stages with equal values are one link, because a link costs a start-up. The last link is not limited to its
    stages: on another seed, the target may need more of them.

    Args:
        declaration: The search.
        trials: Its trials.
        trial: The finalist.
    """
    if declaration.iterations is None or trial.is_stock:
        return [Link(trial=trial.number, values=trial.values, iterations=None)]
    chain = []
    for values, each in itertools.groupby(lineage(trials, trial), key=lambda each: each.values):
        stages = list(each)
        chain.append(Link(trial=stages[-1].number, values=values, iterations=declaration.iterations * len(stages)))
    return [*chain[:-1], Link(trial=chain[-1].trial, values=chain[-1].values, iterations=None)]


def chain_runs(trials: Sequence[Trial], chain: Chain, seed: int) -> list[SeedRun]:
    """Return the trainings of a chain on a sealed seed that have been started, in the order of its links.

    Args:
        trials: All trials.
        chain: The chain.
        seed: The sealed seed.
    """
    by_number = {trial.number: trial for trial in trials}
    runs = (by_number[link.trial].sealed(seed) if link.trial in by_number else None for link in chain)
    return [run for run in itertools.takewhile(lambda run: run is not None, runs) if run is not None]


def has_ended(chain: Chain, runs: Sequence[SeedRun]) -> bool:
    """Tell whether a chain has no training left to run on a sealed seed.

    Args:
        chain: The chain.
        runs: Its trainings on the seed, as from :func:`chain_runs`.
    """
    if not runs or not runs[-1].outcome.is_final:
        return False
    goes_on = runs[-1].outcome is Outcome.MISSED and runs[-1].success is not None
    return not goes_on or len(runs) == len(chain)


def next_link(trials: Sequence[Trial], chain: Chain, seed: int) -> Start | None:
    """Return the training of a chain that comes next on a sealed seed.

    Args:
        trials: All trials.
        chain: The chain.
        seed: The sealed seed.

    Returns:
        The training; ``None`` if one is under way, or the chain has ended.
    """
    runs = chain_runs(trials, chain, seed)
    interrupted = bool(runs) and runs[-1].outcome is Outcome.INTERRUPTED
    if has_ended(chain, runs) or (runs and not runs[-1].outcome.is_final and not interrupted):
        return None
    done = runs[:-1] if interrupted else runs
    link = chain[len(done)]
    return Start(
        place=Place(link.trial, sealed=True),
        values=link.values,
        seed=seed,
        cap_s=None,
        resumes=interrupted,
        begins_with=SearchTraining(Place(chain[len(done) - 1].trial, sealed=True), seed) if done else None,
        iterations=link.iterations,
    )
