"""The end of a search: what a finalist gains on sealed seeds, and when the search is repaid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.search_races import LANDSCAPES, declared, play, with_run
from ledger_lab.studies.reports.search_view import end_lines
from ledger_lab.studies.search.charges import Charges
from ledger_lab.studies.search.decisions import Decision, End, Situation, Start
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.ending import SealedRun, compare, decide_end, finalists
from ledger_lab.studies.search.race import decide_race
from ledger_lab.studies.search.result import summarize_search
from ledger_lab.studies.search.trials import Outcome, SeedRun, Trial


def runs(bills: Sequence[float], missed: int = 0) -> dict[int, SealedRun]:
    return {
        seed: SealedRun(reached=seed >= missed, bill=bill) for seed, bill in enumerate(bills)
    }  # the first ones miss


def end(declaration: SearchDeclaration, trials: Sequence[Trial]) -> Decision:
    return decide_end(Situation.of(declaration, trials))


BASE = [100.0, 110, 90, 105, 95, 100, 120, 80, 100, 100]


def test_half_the_cost_is_a_gain_that_repays_the_search() -> None:
    (found,) = compare(runs(BASE), {4: runs([each / 2 for each in BASE])}, bill=1000.0)
    assert found.trial == 4 and found.seeds == 10
    assert found.ratio == pytest.approx(0.5) and found.ratio_high == pytest.approx(0.5)
    assert found.is_better and found.p_value < 0.005 and found.break_even == pytest.approx(20)
    assert found.break_even_low is not None and found.break_even_high is not None
    assert found.break_even_low < 20 < found.break_even_high


def test_no_difference_never_repays() -> None:
    (found,) = compare(runs(BASE), {1: runs([*BASE[5:], *BASE[:5]])}, bill=1000.0)
    assert not found.is_better and found.ratio_low < 1 < found.ratio_high
    assert found.break_even is None and found.break_even_high is None


def test_what_missed_is_paid_for() -> None:
    (found,) = compare(runs(BASE), {1: runs([each / 2 for each in BASE], missed=5)}, bill=1.0)
    assert found.ratio == pytest.approx(1.0) and not found.is_better
    (never,) = compare(runs(BASE), {1: runs(BASE, missed=10)}, bill=1.0)
    assert never.ratio == math.inf and never.break_even is None
    (neither,) = compare(runs(BASE, missed=10), {1: runs(BASE, missed=10)}, bill=1.0)
    assert neither.ratio is None and (neither.ratio_low, neither.ratio_high) == (0.0, math.inf)


def test_a_stock_recipe_that_never_reached_the_target_bounds_the_ratio() -> None:
    (found,) = compare(runs(BASE, missed=10), {1: runs([each / 2 for each in BASE])}, bill=9500.0)
    assert found.is_bound and found.ratio == pytest.approx(0.05), "50 instead of at least 1000"
    assert found.is_better and found.ratio_low == 0.0 < found.ratio_high < 0.1
    assert found.break_even == pytest.approx(10) and found.break_even_low == 1.0, "nothing is repaid before it trains"
    (rare,) = compare(runs(BASE, missed=7), {1: runs([each / 2 for each in BASE])}, bill=100.0)
    assert not rare.is_bound and rare.break_even_low == 1.0


def test_more_finalists_widen_each_interval() -> None:
    mixed = runs([50.0, 130, 70, 100, 95, 60, 90, 80, 40, 100])
    (alone,) = compare(runs(BASE), {1: mixed}, bill=1.0)
    of_three = compare(runs(BASE), {1: mixed, 2: mixed, 3: mixed}, bill=1.0)
    assert [each.trial for each in of_three] == [1, 2, 3]
    assert of_three[0].ratio_high > alone.ratio_high and of_three[0].ratio_low < alone.ratio_low


def test_sealed_seeds_are_run_stock_first_and_to_the_end() -> None:
    declaration = declared(3.0)
    trials, _ = play(declaration, LANDSCAPES["steep"])
    charges = Charges.of(declaration, trials, None)
    starts = []
    while isinstance(start := end(declaration, trials), Start):
        starts.append(start)
        assert start.seed in declaration.sealed_seeds and start.place.sealed
        run = SeedRun(
            seed=start.seed,
            outcome=Outcome.REACHED,
            wall_s=300.0,
            usd=None,
            cap_s=start.cap_s,
            started_s=0.0,
            sealed=True,
        )
        if len(starts) == 7:  # interrupted, and resumed
            half = with_run(trials, start, replace(run, outcome=Outcome.INTERRUPTED))
            assert end(declaration, half[::-1]) == replace(start, resumes=True)
        trials = with_run(trials, start, run)
    assert isinstance(start, End)
    numbers = [each.number for each in finalists(declaration, trials, charges)]
    assert [each.place.trial for each in starts] == [0, *numbers] * 10
    assert {each.cap_s for each in starts} == {None}, "a cap would make failures of finalists cheap"
    assert Charges.of(declaration, trials, None).by_trial == charges.by_trial  # the race does not see the end
    assert isinstance(decide_race(Situation.of(declaration, trials)), End)


@pytest.mark.parametrize("finals", [1, 3])
@pytest.mark.parametrize("hopeless", [0.0, 0.3])
def test_no_gain_is_claimed_where_there_is_none(hopeless: float, finals: int) -> None:
    """Also if some trainings are hopeless, which a bootstrap of ten seeds allows for too little."""
    stream, claims = np.random.default_rng(3), 0
    for _ in range(150):
        bills = np.exp(0.3 * stream.standard_normal((1 + finals, 10)))
        misses = stream.random((1 + finals, 10)) < hopeless
        stock, *others = (
            {
                seed: SealedRun(reached=not miss, bill=4.0 if miss else float(bill))
                for seed, (bill, miss) in enumerate(zip(own, missed, strict=True))
            }
            for own, missed in zip(bills, misses, strict=True)
        )
        claims += any(each.is_better for each in compare(stock, dict(enumerate(others, start=1)), bill=1.0))
    assert claims <= 10, "lower bound of 5 % at 95 % confidence: 12"


def test_a_finalist_with_a_smaller_ratio_that_is_not_proven_does_not_hide_one_that_is() -> None:
    declaration = declared(3.0)
    trials, _ = play(declaration, LANDSCAPES["steep"])
    found = compare(
        runs(BASE),
        {1: runs([5.0, 5, 5, 5, 5, 5, 5, 5, 5, 450]), 2: runs([each * 0.6 for each in BASE])},
        bill=1000.0,
    )
    assert [each.trial for each in found] == [1, 2]
    assert [each.is_better for each in found] == [False, True]
    result = replace(summarize_search(Situation.of(declaration, trials)), comparisons=tuple(found))
    assert result.winner is not None and result.winner.trial == 2
    assert "no finalist is proven" not in "".join(end_lines(result))
