"""The race: which training a search starts next, or that the race has ended.

All trials run the first seed. A trial runs its next seed if it is ahead of the incumbent, which is the best trial that
has run all seeds. Each training has a cap, after which its trial can no longer win: the charge with which the trial's
sum passes that of the incumbent on the same seeds, but at most twice the incumbent's largest charge of a seed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ledger_lab.studies.search.situation import Decision, End, Situation, Start, Wait
from ledger_lab.studies.search.trials import Outcome, Trial

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
        situation: What the decision depends on. A new trial is stored.

    Raises:
        UserError: If no proposal is accepted.
    """
    if decision := situation.interrupted() or _stock(situation):
        return decision
    best = incumbent(situation) or situation.stock
    start = _next_seed(situation, best)
    if start is None:
        cap_s = situation.seconds(_cap(situation, best, {}, situation.declaration.search_seeds[0]))
        if (refused := situation.cannot_pay(cap_s)) is None:
            situation.store.tell(situation.positions())
            new = situation.store.propose(situation.refuses)
            return _next_seed(replace(situation, trials=[*situation.trials, new]), best) or Wait("nothing to start")
    else:
        refused = situation.cannot_pay(start.cap_s or 0.0)
    if isinstance(refused, End) and len(situation.trials) == 1:
        return End(f"the budget does not buy one trial besides the stock recipe: {refused.reason}")
    return refused or start or Wait("nothing to start")


def incumbent(situation: Situation) -> Trial | None:
    """Return the best trial that has run all seeds; ``None`` before there is one.

    Fewer seeds without the target are better; then a smaller sum; then the older trial.

    Args:
        situation: What is known of the search.
    """
    seeds = {*situation.declaration.search_seeds}
    whole = [trial for trial in situation.trials if situation.charges(trial).keys() == seeds]
    return min(whole, key=lambda each: (-each.reached, sum(situation.charges(each).values())), default=None)


def best_on_all_seeds(situation: Situation) -> list[Trial]:
    """Return the trials that reached the target on all search seeds, best first.

    Args:
        situation: What is known of the search.
    """
    seeds = len(situation.declaration.search_seeds)
    found = [trial for trial in situation.trials if not trial.is_stock and trial.reached == seeds]
    return sorted(found, key=lambda each: (situation.mean(each), each.number))


def _stock(situation: Situation) -> Decision | None:
    """Decide about the stock recipe; ``None`` if it has run all seeds, so that other trials can start."""
    runs = situation.stock.runs
    for run in runs:
        if run.outcome in _BAD_STOCK:
            what, way_out = _BAD_STOCK[run.outcome]
            return End(f"the stock recipe {what} on seed {run.seed}, so there is nothing to compare with: {way_out}")
    missing = [seed for seed in situation.declaration.search_seeds if seed not in situation.stock.seeds]
    if missing:
        cap_s = situation.share_s(len(missing))
        if cap_s <= 0:
            return End("the budget does not buy all seeds of the stock recipe: raise it")
        return Start.of(situation.stock, missing[0], cap_s)
    if not all(run.outcome.is_final for run in runs):
        return Wait("the stock recipe has not run all search seeds yet")
    return None


def _next_seed(situation: Situation, best: Trial) -> Start | None:
    """Return the next training of the first trial that has run no seed, or is ahead of the incumbent."""
    for trial in situation.trials:
        missing = [seed for seed in situation.declaration.search_seeds if seed not in trial.seeds]
        if not missing or trial.reached < len(trial.runs):
            continue
        cap = _cap(situation, best, situation.charges(trial), missing[0])
        if cap > 0:
            return Start.of(trial, missing[0], situation.seconds(cap))
    return None


def _cap(situation: Situation, best: Trial, own: dict[int, float], seed: int) -> float:
    """Return the cap of a trial's next training, as a charge; 0 if the trial is behind the incumbent.

    Args:
        situation: What is known of the search.
        best: The incumbent.
        own: Charges of the trial's earlier seeds.
        seed: The seed of the training.
    """
    theirs = situation.charges(best)
    spent = sum(own.values())
    if own and spent >= sum(theirs[each] for each in own):
        return 0.0
    return min(CAP_RATIO * max(theirs.values()), sum(theirs[each] for each in (*own, seed)) - spent)
