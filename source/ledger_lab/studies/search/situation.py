"""What a search can decide, and everything that a decision depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import Values
from ledger_lab.studies.search.store import Refuses, TrialStore
from ledger_lab.studies.search.trials import STOCK, Outcome, SeedRun, Trial, seeds_of

_MISSED = 1e9
"""What TPE gets on top of the mean charge of a trial for each search seed without the target: TPE only uses the order
of trials, and those that reached the target on more seeds come first."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """A training has to be started or resumed."""

    trial: int
    values: Values
    seed: int
    cap_s: float | None
    """Time that all its attempts may take together [s]; ``None`` without a limit."""
    resumes: bool = False
    """Whether the training was interrupted, and continues."""
    begins_with: int | None = None
    """Trial whose last policy it begins with; ``None`` for random networks."""

    @classmethod
    def of(cls, trial: Trial, seed: int, cap_s: float | None, *, resumes: bool = False) -> Start:
        """Return the start of a training of a trial."""
        values, parent = trial.values, trial.parent
        return cls(trial=trial.number, values=values, seed=seed, cap_s=cap_s, resumes=resumes, begins_with=parent)


@dataclass(frozen=True)
class Wait:
    """Nothing can be started before a training under way has ended."""

    reason: str


@dataclass(frozen=True)
class End:
    """The race is over."""

    reason: str


type Decision = Start | Wait | End


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Everything that a decision depends on: the search file, its trials, and how their trainings stand.

    Trainings of the race are compared by their *charges* [s or USD, as the objective says]: that of a training without
    the target is at least its cap.
    """

    declaration: SearchDeclaration
    trials: Sequence[Trial]
    """By number; the first one is the stock recipe."""
    store: TrialStore
    usd_per_s: float | None = None
    """Price of a second of a training [USD/s]; ``None`` if neither the budget nor the objective needs it."""
    refuses: Refuses | None = None
    """Tells why the values of a new trial can't be trained with; ``None`` to accept any."""

    @property
    def stock(self) -> Trial:
        """The trial of the stock recipe."""
        return self.trials[0]

    @property
    def started(self) -> list[Trial]:
        """The trials that have been started, by number."""
        return [trial for trial in self.trials if trial.runs]

    @property
    def runs(self) -> list[SeedRun]:
        """All trainings."""
        return [run for trial in self.trials for run in trial.runs]

    @property
    def is_under_way(self) -> bool:
        """Whether a training has not ended."""
        return any(not run.outcome.is_final for run in self.runs)

    def charges(self, trial: Trial) -> dict[int, float]:
        """Return what the ended trainings of a trial count as, by seed."""
        per_s = self.usd_per_s if self.declaration.objective == "cost" and self.usd_per_s else 1.0
        return {run.seed: run.charged_s * per_s for run in trial.runs if run.outcome.is_final}

    def seconds(self, charge: float) -> float:
        """Return the time that a charge stands for [s]."""
        return charge / self.usd_per_s if self.declaration.objective == "cost" and self.usd_per_s else charge

    def mean(self, trial: Trial) -> float:
        """Return the mean charge of the ended trainings of a trial; there must be one."""
        own = self.charges(trial).values()
        return sum(own) / len(own)

    def from_budget(self, wall_s: float) -> float:
        """Return what a training of some time takes from the budget [USD or h]."""
        return wall_s / 3600 if self.declaration.unit == "h" else wall_s * (self.usd_per_s or 0.0)

    @property
    def spent(self) -> float:
        """What the race has spent [USD or h, as the budget]; a training under way counts as its cap."""

        def spent_by(run: SeedRun) -> float:
            if run.outcome.is_final and self.declaration.unit == "USD" and run.usd is not None:
                return run.usd
            longest_s = 0.0 if run.outcome.is_final else run.cap_s or 0.0
            return self.from_budget(max(run.wall_s, longest_s))

        return sum(map(spent_by, self.runs))

    @property
    def left(self) -> float:
        """What is left of the budget [USD or h]."""
        return self.declaration.budget - self.spent

    def share_s(self, trainings: int) -> float:
        """Return how long each of some trainings may take if they share what is left of the budget [s].

        Args:
            trainings: Their number; at least 1.
        """
        return self.left / trainings / self.from_budget(1.0)

    def cannot_pay(self, cap_s: float) -> Wait | End | None:
        """Tell whether the rest of the budget does not buy a training up to its cap.

        Returns:
            To wait for trainings under way, which may take less than their caps; without any, the end of the race;
            ``None`` if the budget is enough.
        """
        needed = self.from_budget(cap_s)
        if needed <= self.left:
            return None
        if self.is_under_way:
            return Wait("the trainings under way may use up the budget")
        return End(f"the rest of the budget does not buy a training of up to {needed:.3g} {self.declaration.unit}")

    def interrupted(self) -> Start | None:
        """Return the first training that has to be resumed."""
        for trial in self.trials:
            for run in trial.runs:
                if run.outcome is Outcome.INTERRUPTED:
                    return Start.of(trial, run.seed, run.cap_s, resumes=True)
        return None

    def positions(self) -> dict[int, float]:
        """Return how good the ended trials are, smaller for better ones.

        First come those that reached the target on all seeds that they have run, by their mean charge; then the others,
        by the number of seeds on which they reached it.
        """
        found = {}
        for trial in self.trials:
            if trial.has_ended and trial.number != STOCK:
                missing = len(seeds_of(self.declaration, trial.number)) - trial.reached
                missed = missing if trial.reached < len(trial.runs) else 0
                found[trial.number] = self.mean(trial) + _MISSED * missed
        return found
