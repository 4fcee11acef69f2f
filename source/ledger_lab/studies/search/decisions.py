"""What a search can decide, and everything that a decision depends on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

from ledger_lab.studies.search.charges import Charges
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.price import TrainingPrice
from ledger_lab.studies.search.proposals import Refuses
from ledger_lab.studies.search.space import Values
from ledger_lab.studies.search.trials import STOCK, Outcome, Place, SearchTraining, SeedRun, Trial, in_order


@dataclass(frozen=True, kw_only=True)
class Start:
    """A training has to be started or resumed."""

    place: Place
    values: Values
    seed: int
    cap_s: float | None
    """Time that all its attempts may take together [s]; ``None`` without a limit."""
    resumes: bool = False
    """Whether the training was interrupted, and continues."""
    begins_with: SearchTraining | None = None
    """Training whose last policy it begins with; ``None`` for random networks."""
    iterations: int | None = None
    """Iterations to train; ``None`` for those of the stock recipe."""


@dataclass(frozen=True)
class Wait:
    """Nothing can be started before a training under way has ended."""

    reason: str


@dataclass(frozen=True)
class End:
    """The race, or the whole search, is over."""

    reason: str


type Decision = Start | Wait | End


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Everything that a decision depends on: the search file, and what the ledger says. Equal ones decide equally."""

    declaration: SearchDeclaration
    trials: Sequence[Trial]
    """By number."""
    charges: Charges
    skipped: Collection[int] = ()
    """Numbers of trials whose values ``train.py`` has refused."""
    refuses: Refuses | None = None
    """Tells why the values of a new trial can't be trained with; ``None`` to accept any."""

    @classmethod
    def of(
        cls,
        declaration: SearchDeclaration,
        trials: Sequence[Trial],
        *,
        price: TrainingPrice | None = None,
        skipped: Collection[int] = (),
        refuses: Refuses | None = None,
    ) -> Self:
        """Bring what is known into order.

        To run several trainings at once, add each started training to its trial, as running, and decide again.

        Args:
            declaration: The search.
            trials: What the ledger says of its trials, in any order.
            price: Price of the trainings; ``None`` without a price.
            skipped: As :attr:`skipped`.
            refuses: As :attr:`refuses`.

        Raises:
            UserError: If a price is missing that the budget or the objective needs.
        """
        ordered = in_order(trials)
        charges = Charges.of(declaration, ordered, price)
        return cls(declaration=declaration, trials=ordered, charges=charges, skipped=skipped, refuses=refuses)

    @property
    def stock(self) -> Trial:
        """The trial of the stock recipe; without trainings before its first one."""
        return next((trial for trial in self.trials if trial.is_stock), Trial(number=STOCK, values={}))

    @property
    def race_runs(self) -> list[SeedRun]:
        """The trainings before the sealed seeds."""
        return [run for trial in self.trials for run in trial.runs if not run.sealed]

    @property
    def is_under_way(self) -> bool:
        """Whether a training of them is under way."""
        return any(not run.outcome.is_final for run in self.race_runs)

    @property
    def left(self) -> float:
        """What is left of the budget [USD or h]."""
        declaration = self.declaration
        budget = declaration.budget_h if declaration.budget_usd is None else declaration.budget_usd
        return (budget or 0.0) - self.charges.spent_by_race(declaration, self.trials)

    def share_s(self, trainings: int) -> float:
        """Return how long each of some trainings may take if they share what is left of the budget [s].

        Args:
            trainings: Their number; at least 1.
        """
        return self.charges.time_for(self.declaration, self.left / trainings)

    @property
    def unit(self) -> str:
        """Unit of the budget."""
        return "h" if self.declaration.budget_usd is None else "USD"

    def trial(self, number: int) -> Trial:
        """Return a trial by its number."""
        return next(trial for trial in self.trials if trial.number == number)

    def interrupted(self) -> Start | None:
        """Return the first training before the sealed seeds that has to be resumed."""
        for trial in self.trials:
            for run in trial.runs:
                if run.outcome is Outcome.INTERRUPTED and not run.sealed:
                    return Start(
                        place=Place(trial.number, run.repeat),
                        values=trial.values,
                        seed=run.seed,
                        cap_s=run.cap_s,
                        resumes=True,
                        begins_with=self.training_of(trial.parent),
                        iterations=self.declaration.iterations,
                    )
        return None

    def training_of(self, trial: int | None) -> SearchTraining | None:
        """Return the training of a trial of a population before the sealed seeds.

        Args:
            trial: Number of the trial; ``None`` for none.
        """
        return None if trial is None else SearchTraining(Place(trial), *self.declaration.seeds_of(trial))
