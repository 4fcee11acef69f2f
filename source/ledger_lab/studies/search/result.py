"""What a search has found so far: its best trial, its bill, and what the sealed seeds say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ledger_lab.studies.search.chains import Chain, chain_of
from ledger_lab.studies.search.charges import Charges
from ledger_lab.studies.search.decisions import Situation
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.ending import Comparison, SealedRun, compare, finalists, sealed_runs
from ledger_lab.studies.search.importance import Importance, importances
from ledger_lab.studies.search.population import by_generation, ranked_members, reached, score
from ledger_lab.studies.search.price import TrainingPrice
from ledger_lab.studies.search.race import incumbent
from ledger_lab.studies.search.trials import STOCK, SeedRun, Trial


@dataclass(frozen=True)
class EndedRun:
    """A training of the race, or a control, that has ended."""

    spent: float
    """What the race had spent by its end [USD or h, as the budget]."""
    trial: int
    """Number of its trial."""
    run: SeedRun


@dataclass(frozen=True)
class Step:
    """A change of the best trial."""

    spent: float
    """What the race had spent by then [USD or h, as the budget]."""
    trial: int
    """Number of the new best trial."""
    charge: float
    """Its mean charge of a seed [s or USD, as the objective says]."""


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """Everything that is shown of a search. It follows from the declaration and the trials."""

    declaration: SearchDeclaration
    trials: tuple[Trial, ...]
    """By number."""
    charges: Charges
    spent: float
    """What the race has spent [USD or h, as the budget]; a training under way counts as its cap."""
    bill: float
    """What all trainings took, with those on sealed seeds [s or USD, as the objective says]."""
    best: Trial | None
    """The best trial that has run all search seeds. In a population, the best member of the newest generation that has
    ended, or that of the target. ``None`` before there is one."""
    finalists: tuple[int, ...]
    """Trials that run the sealed seeds besides the stock recipe, best first."""
    sealed: Mapping[int, Mapping[int, SealedRun]]
    """How the stock recipe and the finalists did on the sealed seeds that they have run, by trial and seed."""
    comparisons: tuple[Comparison, ...]
    """Finalists against the stock recipe, smallest ratio first; empty until all sealed seeds have been run."""

    @cached_property
    def importances(self) -> list[Importance]:
        """Importance of the parameters, largest first; empty with too few trials, or for a population. Takes seconds.

        Raises:
            UserError: If Optuna is not installed.
        """
        if self.declaration.population is not None:  # its trials are no independent draws
            return []
        return importances(self.declaration, self.trials, self.charges) or []

    @cached_property
    def ended(self) -> tuple[EndedRun, ...]:
        """The trainings of the race that have ended, with its controls, in the order of their ends."""
        ended = [
            (trial.number, run)
            for trial in self.trials
            for run in trial.runs
            if run.outcome.is_final and not run.sealed
        ]
        ended.sort(key=lambda each: (each[1].started_s + each[1].wall_s, each[0], each[1].seed, each[1].repeat))
        spent, found = 0.0, []
        for number, run in ended:
            spent += self.charges.spent(self.declaration, run)
            found.append(EndedRun(spent, number, run))
        return tuple(found)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The changes of the best trial, oldest first."""
        steps: list[Step] = []
        so_far = {trial.number: replace(trial, runs=()) for trial in self.trials}
        for each in self.ended:
            so_far[each.trial] = replace(so_far[each.trial], runs=(*so_far[each.trial].runs, each.run))
            known = [trial for trial in so_far.values() if trial.runs]
            charges = Charges.of(self.declaration, known, self.charges.price)
            best = incumbent(self.declaration, known, charges)
            if best is not None and (not steps or steps[-1].trial != best.number):
                steps.append(Step(each.spent, best.number, charges.mean(best.number)))
        return tuple(steps)

    @property
    def winner(self) -> Comparison | None:
        """The best of the finalists that are proven to be better: the whole interval of its ratio shows a gain."""
        return next((each for each in self.comparisons if each.is_better), None)

    def trial(self, number: int) -> Trial:
        """Return a trial by its number."""
        return next(trial for trial in self.trials if trial.number == number)

    def chain(self, number: int) -> Chain:
        """Return the trainings that a trial is run by on each sealed seed.

        Args:
            number: Number of the trial.
        """
        return chain_of(self.declaration, self.trials, self.trial(number))


def summarize_search(situation: Situation) -> SearchResult:
    """Compute what a search has found so far.

    Args:
        situation: What is known of the search.
    """
    declaration, trials, charges = situation.declaration, situation.trials, situation.charges
    finals = finalists(declaration, trials, charges)

    def bill(run: SeedRun) -> float:
        return bill_of(declaration, run, charges.price)

    whole_bill = sum(bill(run) for trial in trials for run in trial.runs)
    sealed = {
        trial.number: sealed_runs(situation, chain_of(declaration, trials, trial), bill)
        for trial in (situation.stock, *finals)
    }
    return SearchResult(
        declaration=declaration,
        trials=tuple(trials),
        charges=charges,
        spent=charges.spent_by_race(declaration, trials),
        bill=whole_bill,
        best=_best(situation),
        finalists=tuple(trial.number for trial in finals),
        sealed=sealed,
        comparisons=_comparisons(declaration, sealed, whole_bill),
    )


def _best(situation: Situation) -> Trial | None:
    """Return the best trial so far."""
    declaration, trials = situation.declaration, situation.trials
    if declaration.population is None:
        return incumbent(declaration, trials, situation.charges)
    if found := reached(trials):
        return found[0]
    ended = [
        generation
        for generation in by_generation(declaration, trials).values()
        if len(generation) == declaration.members
        and all(run.outcome.is_final for trial in generation for run in trial.raced().values())
    ]
    if not ended or all(score(trial) is None for trial in ended[-1]):
        return None
    return ranked_members(declaration, ended[-1])[0][0]


def _comparisons(
    declaration: SearchDeclaration, sealed: Mapping[int, Mapping[int, SealedRun]], bill: float
) -> tuple[Comparison, ...]:
    """Compare the finalists with the stock recipe, if all have run all sealed seeds."""
    finals = {number: runs for number, runs in sealed.items() if number != STOCK}
    if not finals or any(runs.keys() != set(declaration.sealed_seeds) for runs in sealed.values()):
        return ()
    return tuple(compare(sealed[STOCK], finals, bill))


def bill_of(declaration: SearchDeclaration, run: SeedRun, price: TrainingPrice | None) -> float:
    """Return the bill of a training: what it really took [s or USD, as the objective says].

    Args:
        declaration: The search.
        run: The training.
        price: Price of the trainings; ``None`` without a price.
    """
    if declaration.objective == "time":
        return run.wall_s
    if run.usd is not None:
        return run.usd
    return math.nan if price is None else price.usd(run.wall_s)
