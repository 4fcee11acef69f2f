"""The race: which training a search starts next, or that it ends.

All trials run the first seed. A trial goes on to the next seed while it is ahead of the incumbent, which is the best
trial that has run all seeds. It ends where it can no longer win: each training has a cap of twice the incumbent's
slowest seed, or of what is left until the trial's sum passes the incumbent's sum over the same seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger_lab.errors import UserError
from ledger_lab.search.charges import Charges
from ledger_lab.search.declaration import SearchDeclaration
from ledger_lab.search.proposals import Refuses, propose
from ledger_lab.search.space import Values
from ledger_lab.search.trials import STOCK, Outcome, Place, SeedRun, Trial, in_order

SLOWEST_TIMES: Final = 2.0
"""Largest charge of a seed ÷ the incumbent's largest charge of a seed."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """A training has to be started, or resumed."""

    place: Place
    values: Values
    seed: int
    cap_s: float | None
    """Time that all its attempts may take together [s]; ``None`` without a limit."""
    resumes: bool = False
    """Whether an earlier attempt is to be resumed."""


@dataclass(frozen=True)
class Wait:
    """Nothing can be started before a training under way has ended."""

    reason: str


@dataclass(frozen=True)
class End:
    """The race is over."""

    reason: str


type Decision = Start | Wait | End


def decide(
    declaration: SearchDeclaration,
    trials: Sequence[Trial],
    *,
    usd_per_s: float | None = None,
    refuses: Refuses | None = None,
) -> Decision:
    """Decide what a search does next. The answer depends on the arguments only.

    To run several trainings at once, add the one that was started to its trial, as running, and decide again.

    Args:
        declaration: The search.
        trials: What the ledger says of its trials, in any order.
        usd_per_s: Price of a second of training [USD/s]; ``None`` without a price.
        refuses: Tells why the values of a new trial can't be trained with; ``None`` to accept any.

    Raises:
        UserError: If a price is missing that the budget or the objective needs, or no proposal is accepted.
    """
    trials = in_order(trials)
    if paused := _paused(trials):
        return paused
    charges = Charges.of(declaration, trials, usd_per_s)
    stock = next((trial for trial in trials if trial.number == STOCK), Trial(number=STOCK, values={}))
    if decision := _stock(declaration, stock, trials, charges):
        return decision
    best = incumbent(declaration, trials, charges)
    if best is None:
        raise UserError(f"search {declaration.name}: trial {STOCK} has no charges")  # unreachable by a whole ledger
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
            if run.outcome is Outcome.CONTINUES and not run.sealed:
                place = Place(trial.number, run.repeat)
                return Start(place=place, values=trial.values, seed=run.seed, cap_s=run.cap_s, resumes=True)
    return None


def _stock(declaration: SearchDeclaration, stock: Trial, trials: Sequence[Trial], charges: Charges) -> Decision | None:
    """Decide about the task's own recipe, which runs all seeds before the race begins; ``None`` if it has."""
    runs = stock.raced()
    bad = {Outcome.CRASHED: "crashed", Outcome.HUNG: "hung", Outcome.CAPPED: "used up its share of the budget"}
    for seed, run in sorted(runs.items()):
        if run.outcome in bad:
            return End(
                f"the task's own recipe {bad[run.outcome]} on seed {seed}, so there is nothing to compare with"
                + ("; raise the budget" if run.outcome is Outcome.CAPPED else "; move its run away to train it again")
            )
    missing = [seed for seed in declaration.search_seeds if seed not in runs]
    if missing:
        left_s = _left(declaration, trials, charges) / charges.price(declaration, 1.0)
        if left_s <= 0:
            return End("the budget does not buy all seeds of the task's own recipe; raise it")
        return Start(place=Place(STOCK), values={}, seed=missing[0], cap_s=left_s / len(missing))
    if not all(run.outcome.is_final for run in runs.values()):
        return Wait("the task's own recipe is still trained")
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
        needed = charges.price(declaration, charges.seconds(cap))
        if needed > _left(declaration, trials, charges):
            return _cannot_pay(declaration, trials, runs, needed)
        number = max(trial.number for trial in trials) + 1
        values = propose(declaration, trials, charges, number, refuses)
        return Start(place=Place(number), values=values, seed=first, cap_s=charges.seconds(cap))
    needed = charges.price(declaration, start.cap_s or 0.0)
    if needed > _left(declaration, trials, charges):
        return _cannot_pay(declaration, trials, runs, needed)
    return start


@dataclass(frozen=True)
class _Caps:
    """Caps that follow from the incumbent."""

    declaration: SearchDeclaration
    best: Trial
    charges: Charges

    @property
    def slowest(self) -> float:
        """Largest charge that any seed may have."""
        return SLOWEST_TIMES * max(self.charges.by_trial[self.best.number].values())

    def of(self, own: dict[int, float], seed: int) -> float:
        """Return the largest charge of a seed with which a trial is still ahead; not positive if it is behind.

        Args:
            own: Charges of the trial's earlier seeds.
            seed: The seed.
        """
        if _misses(self.best):
            return self.slowest  # reaching the target on all seeds is better, however long it takes
        theirs = self.charges.by_trial[self.best.number]
        ahead = sum(theirs[each] for each in (*own, seed)) - sum(own.values())
        return min(self.slowest, ahead) if sum(own.values()) < sum(theirs[each] for each in own) or not own else 0.0


def _survivor(declaration: SearchDeclaration, trials: Sequence[Trial], caps: _Caps) -> tuple[Trial, int, float] | None:
    """Return the first trial that is ahead of the incumbent, with its next seed and that seed's largest charge."""
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
    """Wait for what trainings under way give back, or end the race."""
    if any(not run.outcome.is_final for run in runs):
        return Wait("the trainings under way may use up the budget")
    unit = "h" if declaration.budget_usd is None else "USD"
    if len(trials) == 1:
        return End(
            f"the budget does not buy one trial besides the task's own recipe: it needs {needed:.3g} {unit} more"
        )
    return End(f"the rest of the budget does not buy a training of up to {needed:.3g} {unit}")


def _left(declaration: SearchDeclaration, trials: Sequence[Trial], charges: Charges) -> float:
    """Return what is left of the budget [USD or h]."""
    budget = declaration.budget_h if declaration.budget_usd is None else declaration.budget_usd
    return (budget or 0.0) - charges.spend(declaration, trials)


def _misses(trial: Trial) -> int:
    """Return the number of seeds on which a trial did not reach the target."""
    return sum(run.outcome is not Outcome.REACHED for run in trial.raced().values())
