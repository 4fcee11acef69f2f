"""The race: which training a search starts next, or that the race has ended.

All trials run the first seed. A trial runs its next seed if it is ahead of the incumbent, which is the best trial that
has run all seeds. Each training has a cap, after which its trial can no longer win: the charge with which the trial's
sum passes that of the incumbent on the same seeds, but at most twice the incumbent's largest charge of a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger_lab.search.charges import Charges
from ledger_lab.search.declaration import SearchDeclaration
from ledger_lab.search.proposals import Refuses, propose
from ledger_lab.search.space import Values
from ledger_lab.search.trials import STOCK, Outcome, Place, SeedRun, Trial, in_order

CAP_RATIO: Final = 2.0
"""Largest cap ÷ the incumbent's largest charge of a seed."""


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


@dataclass(frozen=True)
class Wait:
    """Nothing can be started before a training under way has ended."""

    reason: str


@dataclass(frozen=True)
class End:
    """The race, or the whole search, is over."""

    reason: str


type Decision = Start | Wait | End


def decide(
    declaration: SearchDeclaration,
    trials: Sequence[Trial],
    *,
    usd_per_s: float | None = None,
    refuses: Refuses | None = None,
) -> Decision:
    """Decide what comes next in the race. The answer depends on the arguments only.

    To run several trainings at once, add the started training to its trial, as running, and decide again.

    Args:
        declaration: The search.
        trials: What the ledger says of its trials, in any order.
        usd_per_s: Price of a second of training [USD/s]; ``None`` without a price.
        refuses: Tells why the values of a new trial can't be trained with; ``None`` to accept any.

    Raises:
        UserError: If a price is missing that the budget or the objective needs, no proposal is accepted, or Optuna is
            not installed.
    """
    trials = in_order(trials)
    if paused := _paused(trials):
        return paused
    charges = Charges.of(declaration, trials, usd_per_s)
    stock = next((trial for trial in trials if trial.number == STOCK), Trial(number=STOCK, values={}))
    if decision := _stock(declaration, stock, trials, charges):
        return decision
    best = incumbent(declaration, trials, charges) or stock
    return _race(declaration, trials, best, charges, refuses)


def incumbent(declaration: SearchDeclaration, trials: Sequence[Trial], charges: Charges) -> Trial | None:
    """Return the best trial that has run all seeds; ``None`` before there is one.

    Fewer seeds without the target are better; then a smaller sum; then the older trial.

    Args:
        declaration: The search.
        trials: Its trials.
        charges: Their charges.
    """
    whole = [trial for trial in trials if charges.by_trial[trial.number].keys() == set(declaration.search_seeds)]
    return min(
        whole,
        key=lambda trial: (_misses(trial), sum(charges.by_trial[trial.number].values()), trial.number),
        default=None,
    )


def _paused(trials: Sequence[Trial]) -> Start | None:
    """Return the first training that has to be resumed."""
    for trial in trials:
        for run in sorted(trial.runs, key=lambda run: (run.sealed, run.repeat, run.seed)):
            if run.outcome is Outcome.INTERRUPTED and not run.sealed:
                place = Place(trial.number, run.repeat)
                return Start(place=place, values=trial.values, seed=run.seed, cap_s=run.cap_s, resumes=True)
    return None


def _stock(declaration: SearchDeclaration, stock: Trial, trials: Sequence[Trial], charges: Charges) -> Decision | None:
    """Decide about the stock recipe; ``None`` if it has run all seeds, so that other trials can start."""
    runs = stock.raced()
    bad = {Outcome.CRASHED: "crashed", Outcome.HUNG: "hung", Outcome.CAPPED: "used up its share of the budget"}
    for seed, run in sorted(runs.items()):
        if run.outcome in bad:
            return End(
                f"the stock recipe {bad[run.outcome]} on seed {seed}, so there is nothing to compare with"
                + (": raise the budget" if run.outcome is Outcome.CAPPED else ": move its run away to train it again")
            )
    missing = [seed for seed in declaration.search_seeds if seed not in runs]
    if missing:
        left_s = _left(declaration, trials, charges) / charges.from_budget(declaration, 1.0)
        if left_s <= 0:
            return End("the budget does not buy all seeds of the stock recipe: raise it")
        return Start(place=Place(STOCK), values={}, seed=missing[0], cap_s=left_s / len(missing))
    if not all(run.outcome.is_final for run in runs.values()):
        return Wait("the stock recipe has not run all search seeds yet")
    return None


def _race(
    declaration: SearchDeclaration, trials: Sequence[Trial], best: Trial, charges: Charges, refuses: Refuses | None
) -> Decision:
    """Decide between a control, the next seed of a trial, and a new trial."""
    caps = _Caps(declaration, best, charges)
    runs = [run for trial in trials for run in trial.runs if not run.sealed]
    controls = sum(run.repeat > 0 for run in runs)
    others = len(runs) - controls - len(declaration.search_seeds)
    first = declaration.search_seeds[0]
    if others // declaration.control_every > controls:
        place = Place(best.number, 1 + max((run.repeat for run in best.runs), default=0))
        start = Start(place=place, values=best.values, seed=first, cap_s=charges.seconds(caps.slowest))
    elif (survivor := _survivor(declaration, trials, caps)) is not None:
        trial, seed, cap = survivor
        start = Start(place=Place(trial.number), values=trial.values, seed=seed, cap_s=charges.seconds(cap))
    else:
        cap = caps.of({}, first)
        needed = charges.from_budget(declaration, charges.seconds(cap))
        if needed > _left(declaration, trials, charges):
            return _cannot_pay(declaration, trials, runs, needed)
        number = max(trial.number for trial in trials) + 1
        values = propose(declaration, trials, charges, number, refuses)
        return Start(place=Place(number), values=values, seed=first, cap_s=charges.seconds(cap))
    needed = charges.from_budget(declaration, start.cap_s or 0.0)
    if needed > _left(declaration, trials, charges):
        return _cannot_pay(declaration, trials, runs, needed)
    return start


@dataclass(frozen=True)
class _Caps:
    """Caps of trainings, as charges; they follow from the incumbent."""

    declaration: SearchDeclaration
    best: Trial
    charges: Charges

    @property
    def slowest(self) -> float:
        """Largest cap of any training."""
        return CAP_RATIO * max(self.charges.by_trial[self.best.number].values())

    def of(self, own: dict[int, float], seed: int) -> float:
        """Return the cap of a trial's next training; not positive if the trial is behind the incumbent.

        Args:
            own: Charges of the trial's earlier seeds.
            seed: The seed of the training.
        """
        if _misses(self.best):
            return self.slowest  # reaching the target on all seeds is better, however long it takes
        theirs = self.charges.by_trial[self.best.number]
        ahead = sum(theirs[each] for each in (*own, seed)) - sum(own.values())
        return min(self.slowest, ahead) if sum(own.values()) < sum(theirs[each] for each in own) or not own else 0.0


def _survivor(declaration: SearchDeclaration, trials: Sequence[Trial], caps: _Caps) -> tuple[Trial, int, float] | None:
    """Return the first trial that is ahead of the incumbent, with its next seed and the cap of that training."""
    for trial in trials:
        runs = trial.raced()
        missing = [seed for seed in declaration.search_seeds if seed not in runs]
        if not missing or any(run.outcome is not Outcome.REACHED for run in runs.values()):
            continue
        cap = caps.of(caps.charges.by_trial[trial.number], missing[0])
        if cap > 0:
            return trial, missing[0], cap
    return None


def _cannot_pay(
    declaration: SearchDeclaration, trials: Sequence[Trial], runs: Sequence[SeedRun], needed: float
) -> Wait | End:
    """Wait for trainings under way, which may take less than their caps; without any, end the race."""
    if any(not run.outcome.is_final for run in runs):
        return Wait("the trainings under way may use up the budget")
    unit = "h" if declaration.budget_usd is None else "USD"
    if len(trials) == 1:
        return End(
            f"the budget does not buy one trial besides the stock recipe: its training takes up to {needed:.3g} {unit}"
        )
    return End(f"the rest of the budget does not buy a training of up to {needed:.3g} {unit}")


def _left(declaration: SearchDeclaration, trials: Sequence[Trial], charges: Charges) -> float:
    """Return what is left of the budget [USD or h]."""
    budget = declaration.budget_h if declaration.budget_usd is None else declaration.budget_usd
    return (budget or 0.0) - charges.spent_by_race(declaration, trials)


def _misses(trial: Trial) -> int:
    """Return the number of seeds on which a trial did not reach the target."""
    return sum(run.outcome is not Outcome.REACHED for run in trial.raced().values())
