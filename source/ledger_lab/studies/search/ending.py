"""The end of a search: its finalists against the stock recipe on sealed seeds, and when the search is repaid."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ledger_lab.errors import UserError
from ledger_lab.ledger.costs.bootstrap import percentile_levels
from ledger_lab.studies.search.chains import Chain, chain_of, chain_runs, has_ended, next_link
from ledger_lab.studies.search.charges import Charges
from ledger_lab.studies.search.decisions import Decision, End, Situation, Wait
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.population import decide_population, reached
from ledger_lab.studies.search.race import decide_race
from ledger_lab.studies.search.trials import STOCK, Outcome, SeedRun, Trial

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FINALISTS: Final = 3
"""Largest number of trials that run the sealed seeds besides the stock recipe."""
_RESAMPLES: Final = 4000
_CONFIDENCE: Final = 0.95
"""Probability for which the intervals of all finalists are built together, and that no claim of a search is false."""
_SWAPS: Final = 4096
"""Choices of swaps for the p-value; the first swaps nothing."""


@dataclass(frozen=True, kw_only=True)
class SealedRun:
    """A training on a sealed seed, or a chain of trainings."""

    reached: bool
    bill: float
    """What it took, with the target or without it [s or USD, as the objective says]."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A finalist, compared with the stock recipe on the sealed seeds."""

    trial: int
    seeds: int
    """Seeds that both have run."""
    ratio: float | None
    """Bill per proven target ÷ that of the stock recipe; ``None`` if neither reached a target."""
    is_bound: bool
    """Whether the stock recipe reached no target. Then :attr:`ratio` and :attr:`break_even` are computed as if it had
    reached one, and the true ones are smaller."""
    ratio_low: float
    ratio_high: float
    """Interval of the ratio, from resampled seeds; infinite without an upper end. Together, those of all finalists hold
    in about 90 % of searches, and less often if failures are so rare that the sealed seeds have none."""
    p_value: float
    """Probability of a ratio at most as large if the finalist is as good as the stock recipe, times the number of
    finalists."""
    break_even: float | None
    """Trainings with the finalist's recipe or schedule after which the whole search is repaid; ``None`` for never."""
    break_even_low: float | None
    break_even_high: float | None
    """Interval of :attr:`break_even`. The lower end is ``None`` if no resample repays the search, and the upper end if
    the search may never be repaid."""

    @property
    def is_better(self) -> bool:
        """Whether the whole interval of the ratio shows a gain, and the p-value is at most 5 %."""
        return self.ratio_high < 1 and self.p_value <= 1 - _CONFIDENCE


def finalists(declaration: SearchDeclaration, trials: Sequence[Trial], charges: Charges) -> list[Trial]:
    """Return the finalists, best first.

    In a race, they are the best trials that reached the target on all search seeds; in a population, the members that
    reached the target, each by the trial of its last stage.

    Args:
        declaration: The search.
        trials: Its trials by number.
        charges: Their charges.
    """
    if declaration.population is not None:
        return reached(trials)[:FINALISTS]
    sums = {
        trial.number: sum(charges.by_trial[trial.number].values())
        for trial in trials
        if trial.number != STOCK
        and charges.by_trial[trial.number].keys() == set(declaration.search_seeds)
        and all(run.outcome is Outcome.REACHED for run in trial.raced().values())
    }
    best = sorted(
        (trial for trial in trials if trial.number in sums), key=lambda each: (sums[each.number], each.number)
    )
    return best[:FINALISTS]


def decide_end(situation: Situation) -> Decision:
    """Decide which training on a sealed seed comes next, after the race or the population has ended.

    On each seed, the stock recipe runs first, and then the finalists. So all recipes meet the same drift of the
    machine. None has a cap: a cap on the finalists alone would make their failures cheaper than those of the stock
    recipe, and equally good finalists look better.

    Args:
        situation: What the decision depends on.
    """
    declaration, trials, stock = situation.declaration, situation.trials, situation.stock
    finals = finalists(declaration, trials, situation.charges)
    if not finals:
        return End(f"{_NOBODY[declaration.population is None]}, so there is no comparison")
    chains = [chain_of(declaration, trials, trial) for trial in (stock, *finals)]
    for seed in declaration.sealed_seeds:
        for chain in chains:
            if start := next_link(trials, chain, seed):
                return start
    if any(not run.outcome.is_final for trial in trials for run in trial.runs if run.sealed):
        return Wait("the last trainings on sealed seeds have not ended yet")
    return End("all sealed seeds have been run")


_NOBODY = {
    True: "no trial besides the stock recipe reached the target on all search seeds",
    False: "no member reached the target",
}
"""Why there are no finalists, by whether the search is a race."""


def decide_next(situation: Situation) -> Decision:
    """Decide what a search does next: in the race or the population and, when that has ended, on the sealed seeds.

    Args:
        situation: What the decision depends on.

    Returns:
        The decision. At the end, it gives the reasons of both parts.

    Raises:
        UserError: If the race ended before its first new trial, no proposal is accepted, or Optuna is not installed.
    """
    is_race = situation.declaration.population is None
    first = decide_race(situation) if is_race else decide_population(situation)
    if not isinstance(first, End):
        return first
    if all(trial.is_stock for trial in situation.trials):
        raise UserError(f"search {situation.declaration.name}: {first.reason}")
    end = decide_end(situation)
    return end if not isinstance(end, End) else End(f"{first.reason}; {end.reason}")


def sealed_runs(situation: Situation, chain: Chain, bill: Callable[[SeedRun], float]) -> dict[int, SealedRun]:
    """Return how a chain did on each sealed seed on which it has ended.

    Args:
        situation: What is known of the search.
        chain: The chain.
        bill: Returns the bill of a training [s or USD, as the objective says].
    """
    found = {}
    for seed in situation.declaration.sealed_seeds:
        runs = chain_runs(situation.trials, chain, seed)
        if has_ended(chain, runs):
            found[seed] = SealedRun(reached=runs[-1].outcome is Outcome.REACHED, bill=math.fsum(map(bill, runs)))
    return found


def compare(
    stock: Mapping[int, SealedRun], others: Mapping[int, Mapping[int, SealedRun]], bill: float
) -> list[Comparison]:
    """Compare the finalists with the stock recipe, on the seeds that both have run.

    The ratio is that of the bills per proven target. Its interval comes from resampled seeds, which keeps pairs
    together, with the percentiles of :func:`~ledger_lab.ledger.costs.bootstrap.percentile_levels`. With ten seeds, it
    holds less often than it is built for. So a claim also needs an exact test: if a finalist is as good as the stock
    recipe, their trainings on a seed can be swapped, and the p-value is the share of random choices of swaps with a
    ratio at most as large (Fisher 1935; Phipson & Smyth 2010). Because the best finalist is chosen after these
    trainings, interval and test divide the error probability by the number of finalists (Bonferroni).

    Args:
        stock: Trainings of the stock recipe by sealed seed.
        others: Trainings of each finalist by sealed seed, by trial.
        bill: Bill of the whole search, in the same unit.

    Returns:
        The comparisons, smallest ratio first.

    Raises:
        ValueError: If a finalist shares fewer than two seeds with the stock recipe.
    """
    found = [_compared(number, stock, runs, bill, len(others)) for number, runs in others.items()]
    return sorted(found, key=lambda each: (math.inf if each.ratio is None else each.ratio, each.trial))


def _compared(
    number: int, stock: Mapping[int, SealedRun], runs: Mapping[int, SealedRun], bill: float, comparisons: int
) -> Comparison:
    """Compare one finalist."""
    import numpy as np

    seeds = sorted(stock.keys() & runs.keys())
    if len(seeds) < 2:
        raise ValueError(f"trial {number} shares fewer than two sealed seeds with the stock recipe")
    picks = np.random.default_rng(0).integers(len(seeds), size=(_RESAMPLES, len(seeds)))
    every = np.arange(len(seeds))[None]
    base_runs, own_runs = ([each[seed] for seed in seeds] for each in (stock, runs))
    base, own = _per_target(base_runs, picks), _per_target(own_runs, picks)
    # Without a success of the stock recipe, its bill per target is unknown; it is at least that of one success.
    least_base = _per_target(base_runs, picks, at_least_one=True)
    own_s, base_s, least_base_s = (
        float(_per_target(each, every, at_least_one=once)[0])
        for each, once in ((own_runs, False), (base_runs, False), (base_runs, True))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        lows, highs, most_saved, least_saved = own / base, own / least_base, base - own, least_base - own
    levels = percentile_levels(len(seeds), 1 - (1 - _CONFIDENCE) / comparisons)
    # In a resample in which neither recipe reached the target, the ratio can be anything.
    low = float(np.quantile(np.nan_to_num(lows, nan=0.0, posinf=np.inf), levels[0], method="inverted_cdf"))
    high = float(np.quantile(highs, levels[1], method="inverted_cdf"))
    least = np.quantile(least_saved, levels[0], method="inverted_cdf")
    most = np.quantile(np.nan_to_num(most_saved, nan=np.inf, posinf=np.inf), levels[1], method="inverted_cdf")
    return Comparison(
        trial=number,
        seeds=len(seeds),
        ratio=None if math.isinf(own_s) and math.isinf(base_s) else own_s / least_base_s,
        is_bound=math.isinf(base_s),
        ratio_low=low,
        ratio_high=high,
        p_value=min(1.0, comparisons * _swap_p_value(base_runs, own_runs)),
        break_even=_trainings(bill, least_base_s - own_s),
        break_even_low=_trainings(bill, float(most)),
        break_even_high=_trainings(bill, float(least)) if high < 1 else None,
    )


def _swap_p_value(base: Sequence[SealedRun], own: Sequence[SealedRun]) -> float:
    """Return the share of random choices of swapped seeds with a ratio of the bills per target at most the real one."""
    import numpy as np

    swaps = np.random.default_rng(0).random((_SWAPS, len(own))) < 0.5
    swaps[0] = False
    ours, theirs = (np.array([(run.bill, run.reached) for run in runs], dtype=float).T for runs in (own, base))
    bill, reached = np.where(swaps, theirs[:, None], ours[:, None]).sum(axis=2)
    others_bill, others_reached = np.where(swaps, ours[:, None], theirs[:, None]).sum(axis=2)
    # bill ÷ reached ÷ (other bill ÷ other reached), without a division by 0; 0 ÷ 0 counts as small
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num((bill * others_reached) / (others_bill * reached), nan=0.0, posinf=np.inf)
    return float((ratios <= ratios[0] * (1 + 1e-9)).mean())


def _per_target(
    runs: Sequence[SealedRun], picks: NDArray[np.int64], *, at_least_one: bool = False
) -> NDArray[np.float64]:
    """Return the bill per proven target in each resample; infinite without a proven target.

    Args:
        runs: The trainings.
        picks: Indices of the resampled trainings, of shape (resamples, trainings).
        at_least_one: Whether to divide by one where no target was proven.
    """
    import numpy as np

    bills, reached = np.array([run.bill for run in runs]), np.array([run.reached for run in runs], dtype=float)
    with np.errstate(divide="ignore"):
        return bills[picks].sum(axis=1) / np.maximum(reached[picks].sum(axis=1), float(at_least_one))


def _trainings(bill: float, saving: float) -> float | None:
    """Return after how many trainings a bill is repaid, at least one; ``None`` for never."""
    return max(1.0, bill / saving) if saving > 0 else None
