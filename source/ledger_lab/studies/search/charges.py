"""What the trainings of the race count as, corrected for the drift of their machines; and what the race has spent."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from ledger_lab.errors import UserError
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.price import TrainingPrice
from ledger_lab.studies.search.trials import Outcome, SeedRun, Trial

_COMPARABLE = (Outcome.REACHED, Outcome.MISSED, Outcome.CAPPED)
"""Outcomes of trainings whose speed is compared. Those that crashed or hung may have made few steps, and the first
steps are slow."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How much slower a machine is than at the beginning, over time."""

    times_s: tuple[float, ...]
    """Times of the controls, in ascending order, in seconds since 1970 [s]."""
    factors: tuple[float, ...]
    """Time per environment step ÷ that at the beginning, from each control on."""

    @classmethod
    def of(cls, machine: str, trials: Sequence[Trial]) -> Self:
        """Measure the drift of a machine by the controls that ran on it.

        A control repeats an earlier training, so both do the same work. Only the time per environment step is
        compared, because the number of steps to the target can differ between repetitions.

        Args:
            machine: The machine.
            trials: The trials.
        """
        first: dict[tuple[int, int], SeedRun] = {}
        controls: list[tuple[float, int, SeedRun]] = []
        for trial in trials:
            for run in trial.runs:
                if run.machine != machine or not run.step_s or run.outcome not in _COMPARABLE:
                    continue
                if run.repeat:
                    controls.append((run.started_s, trial.number, run))
                elif not run.sealed:
                    first[trial.number, run.seed] = run
        times: list[float] = []
        factors: list[float] = []
        for started_s, number, run in sorted(controls, key=lambda each: (each[0], each[1], each[2].repeat)):
            before = first.get((number, run.seed))
            if before is None or not before.step_s or not run.step_s:
                continue
            then = cls(times_s=tuple(times), factors=tuple(factors)).at(before.started_s)
            times.append(started_s)
            factors.append(then * run.step_s / before.step_s)
        return cls(times_s=tuple(times), factors=tuple(factors))

    def at(self, time_s: float) -> float:
        """Return the factor at a time: that of the latest control until then, or 1 before the first one.

        Args:
            time_s: Seconds since 1970 [s].
        """
        place = bisect.bisect_right(self.times_s, time_s)
        return self.factors[place - 1] if place else 1.0


def unused_controls(trials: Sequence[Trial]) -> int:
    """Return how many controls ran on another machine than the training that they repeat, and so show no drift.

    Args:
        trials: The trials.
    """
    return sum(
        run.repeat > 0 and (first := trial.raced().get(run.seed)) is not None and first.machine != run.machine
        for trial in trials
        for run in trial.runs
    )


@dataclass(frozen=True, kw_only=True)
class Charges:
    """Charges: what trainings of the race count as when trials are compared [s or USD, as the objective says].

    The charge of a training without the target is at least its cap. Charges are corrected for the drift of the machine.
    What trainings really took is their bill: see :func:`~ledger_lab.studies.search.result.bill_of`.
    """

    by_trial: dict[int, dict[int, float]]
    """Charge of each ended training of the race, without controls, by trial and seed."""
    drift: float
    """Present drift of the machine that has become slowest: its time per environment step ÷ that at the beginning."""
    price: TrainingPrice | None
    """Price of the trainings; ``None`` if neither the budget nor the objective needs it."""
    costs: bool
    """Whether trainings are compared by their costs, and not by their times."""

    @classmethod
    def of(cls, declaration: SearchDeclaration, trials: Sequence[Trial], price: TrainingPrice | None) -> Self:
        """Compute the charges.

        Args:
            declaration: The search.
            trials: Its trials.
            price: Price of the trainings; ``None`` without a price.

        Raises:
            UserError: If a price is missing that the budget or the objective needs.
        """
        costs = declaration.objective == "cost"
        if (costs or declaration.budget_usd is not None) and (price is None or not price.per_s):
            raise UserError(
                f"search {declaration.name}: the machine has no price, or costs nothing: set one, or give budget_h "
                'and objective = "time"'
            )
        runs = [run for trial in trials for run in trial.runs]
        drifts = {machine: Drift.of(machine, trials) for machine in sorted({run.machine for run in runs})}

        def charge(run: SeedRun) -> float:
            amount = price.usd(run.charged_s) if costs and price is not None else run.charged_s
            return amount / drifts[run.machine].at(run.started_s)

        return cls(
            by_trial={
                trial.number: {seed: charge(run) for seed, run in trial.raced().items() if run.outcome.is_final}
                for trial in trials
            },
            drift=max((each.factors[-1] for each in drifts.values() if each.factors), default=1.0),
            price=price,
            costs=costs,
        )

    def mean(self, trial: int) -> float:
        """Return the mean charge of a trial's seeds that have ended; there must be one."""
        own = self.by_trial[trial].values()
        return sum(own) / len(own)

    def seconds(self, charge: float) -> float:
        """Return the time that a charge stands for, at the present speed of the slowest machine [s]."""
        return (charge / self.price.per_s if self.costs and self.price is not None else charge) * self.drift

    def spent_by_race(self, declaration: SearchDeclaration, trials: Sequence[Trial]) -> float:
        """Return what the race has spent [USD or h, as the budget]. A training under way counts as its cap.

        Args:
            declaration: The search.
            trials: Its trials.
        """
        runs = [run for trial in trials for run in trial.runs if not run.sealed]
        return sum(self.spent(declaration, run) for run in runs)

    def from_budget(self, declaration: SearchDeclaration, wall_s: float) -> float:
        """Return what a training of some time takes from the budget, as it is billed [USD or h]."""
        if declaration.budget_usd is None or self.price is None:
            return wall_s / 3600
        return self.price.usd(wall_s)

    def time_for(self, declaration: SearchDeclaration, amount: float) -> float:
        """Return how long a training may take that takes an amount from the budget [s].

        Args:
            declaration: The search.
            amount: The amount [USD or h, as the budget].
        """
        if declaration.budget_usd is None or self.price is None:
            return 3600 * amount
        return self.price.seconds(amount)

    def spent(self, declaration: SearchDeclaration, run: SeedRun) -> float:
        """Return what a training has taken from the budget, or may still take [USD or h]."""
        if not run.outcome.is_final:
            return self.from_budget(declaration, max(run.wall_s, run.cap_s or 0.0))
        if declaration.budget_usd is not None and run.usd is not None:
            return run.usd
        return self.from_budget(declaration, run.wall_s)
