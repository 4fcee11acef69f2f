"""What a search has found so far: its best trial, its finalists, and which parameters matter."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.population import by_generation, lineage, ranked_members, reached, score
from ledger_lab.studies.search.race import finalists, incumbent
from ledger_lab.studies.search.situation import Situation
from ledger_lab.studies.search.trials import Trial

FEWEST_TRIALS: Final = 20
"""Smallest number of ended trials from which importance is computed."""
_MOST_FINALISTS: Final = 3


class SearchResult:
    """Everything that is shown of a search. It follows from its situation."""

    def __init__(self, situation: Situation) -> None:
        """Keep the situation."""
        self.situation = situation

    @property
    def declaration(self) -> SearchDeclaration:
        """The search."""
        return self.situation.declaration

    @property
    def trials(self) -> list[Trial]:
        """The trials that have been started, by number."""
        return [trial for trial in self.situation.trials if trial.runs]

    @cached_property
    def best(self) -> Trial | None:
        """The best trial that has run all search seeds; ``None`` before there is one.

        In a population, it is the best member of the newest generation that has ended, or that of the target.
        """
        declaration, trials = self.declaration, self.trials
        if declaration.is_race:
            return incumbent(self.situation)
        if found := reached(trials):
            return found[0]
        generations = by_generation(declaration, trials).values()
        ended = [each for each in generations if len(each) == declaration.members and all(m.has_ended for m in each)]
        if not ended or all(score(trial) is None for trial in ended[-1]):
            return None
        return ranked_members(declaration, ended[-1])[0][0]

    @property
    def finalists(self) -> list[Trial]:
        """Trials that are compared with the stock recipe on the sealed seeds, best first.

        In a population, they are members that reached the target with values that never changed along their lineage: a
        schedule is no recipe that a study could train from random networks.
        """
        if self.declaration.is_race:
            return finalists(self.situation, _MOST_FINALISTS)
        found = reached(self.trials)
        return [trial for trial in found if all(each.values == trial.values for each in lineage(self.trials, trial))][
            :_MOST_FINALISTS
        ]

    @cached_property
    def importances(self) -> dict[str, float]:
        """Share of each parameter in what decides whether a trial is among the best tenth, the largest first.

        Empty with too few trials, or for a population.
        """
        positions = self.situation.positions() if self.declaration.is_race else {}
        if len(positions) < FEWEST_TRIALS:
            return {}
        values = {trial.number: trial.values for trial in self.trials}
        ranked = [values[number] for number in sorted(positions, key=lambda each: (positions[each], each))]
        found = self.situation.store.importance(ranked)
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))
