"""The race: which training a search starts next, or that the race has ended.

All trials run the first seed. A trial runs its next seed if it is ahead of the incumbent, which is the best trial that
has run all seeds. Each training has a cap, after which its trial can no longer win: the charge with which the trial's
sum passes that of the incumbent on the same seeds, but at most twice the incumbent's largest charge of a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger_lab.studies.search.charges import Charges
from ledger_lab.studies.search.decisions import Decision, End, Situation, Start, Wait
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.proposals import propose
from ledger_lab.studies.search.trials import STOCK, Outcome, Place, Trial

CAP_RATIO: Final = 2.0
"""Largest cap ÷ the incumbent's largest charge of a seed."""
_TRAIN_AGAIN = "move its run away to train it again"
_BAD_STOCK: Final = {
    Outcome.MISSED: ("missed the target", "let it train longer, with --max_iterations in arguments"),
    Outcome.CAPPED: ("used up its share of the budget", "raise the budget"),
    Outcome.CRASHED: ("crashed", _TRAIN_AGAIN),
    Outcome.HUNG: ("hung", _TRAIN_AGAIN),
}
"""Ends of a training of the stock recipe without which there is no race: what it did, and the way out."""


def decide_race(situation: Situation) -> Decision:
    """Decide what comes next in the race.

    Args:
        situation: What the decision depends on.

    Raises:
        UserError: If no proposal is accepted, or Optuna is not installed.
    """
    if interrupted := situation.interrupted():
        return interrupted
    if decision := _stock(situation):
        return decision
    best = incumbent(situation.declaration, situation.trials, situation.charges) or situation.stock
    return _race(situation, best)


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


def _stock(situation: Situation) -> Decision | None:
    """Decide about the stock recipe; ``None`` if it has run all seeds, so that other trials can start."""
    runs = situation.stock.raced()
    for seed, run in sorted(runs.items()):
        if run.outcome in _BAD_STOCK:
            what, way_out = _BAD_STOCK[run.outcome]
            return End(f"the stock recipe {what} on seed {seed}, so there is nothing to compare with: {way_out}")
    missing = [seed for seed in situation.declaration.search_seeds if seed not in runs]
    if missing:
        cap_s = situation.share_s(len(missing))
        if cap_s <= 0:
            return End("the budget does not buy all seeds of the stock recipe: raise it")
        return Start(place=Place(STOCK), values={}, seed=missing[0], cap_s=cap_s)
    if not all(run.outcome.is_final for run in runs.values()):
        return Wait("the stock recipe has not run all search seeds yet")
    return None


def _race(situation: Situation, best: Trial) -> Decision:
    """Decide between a control, the next seed of a trial, and a new trial."""
    declaration, trials, charges = situation.declaration, situation.trials, situation.charges
    caps = _Caps(declaration, best, charges)
    runs = situation.race_runs
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
        cap_s = charges.seconds(caps.of({}, first))
        if (refused := _cannot_pay(situation, cap_s)) is not None:
            return refused
        number = 1 + max((*(trial.number for trial in trials), *situation.skipped))
        values = propose(declaration, trials, charges, number, situation.refuses)
        return Start(place=Place(number), values=values, seed=first, cap_s=cap_s)
    return _cannot_pay(situation, start.cap_s or 0.0) or start


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


def _cannot_pay(situation: Situation, cap_s: float) -> Wait | End | None:
    """Tell whether the rest of the budget does not buy a training up to its cap.

    Returns:
        To wait for trainings under way, which may take less than their caps; without any, the end of the race; ``None``
        if the budget is enough.
    """
    needed = situation.charges.from_budget(situation.declaration, cap_s)
    if needed <= situation.left:
        return None
    if situation.is_under_way:
        return Wait("the trainings under way may use up the budget")
    unit = situation.unit
    if len(situation.trials) == 1:
        return End(
            f"the budget does not buy one trial besides the stock recipe: its training takes up to {needed:.3g} {unit}"
        )
    return End(f"the rest of the budget does not buy a training of up to {needed:.3g} {unit}")


def _misses(trial: Trial) -> int:
    """Return the number of seeds on which a trial did not reach the target."""
    return sum(run.outcome is not Outcome.REACHED for run in trial.raced().values())
