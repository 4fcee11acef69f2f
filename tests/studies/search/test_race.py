"""Races: caps, survivors, the incumbent and the budget; and what Optuna is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from benchmarks.search_races import LANDSCAPES, declared, play, with_run
from ledger_lab.errors import UserError
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.race import best_on_all_seeds, decide_race, incumbent
from ledger_lab.studies.search.situation import End, Situation, Start, Wait
from ledger_lab.studies.search.store import TrialStore
from ledger_lab.studies.search.trials import Outcome, SeedRun, Trial
from ledger_lab.studies.search.view import FEWEST_TRIALS, importances

DECLARATION = declared(1.0)
VALUES = {"learning_rate": 1e-3, "clip": 0.2, "schedule": "fixed"}


def situation(trials: Sequence[Trial], declaration: SearchDeclaration = DECLARATION) -> Situation:
    """Return how a search stands whose trials are stored."""
    store = TrialStore(declaration)
    for trial in trials[1:]:
        assert store.add(trial.values, None).number == trial.number
    return Situation(declaration=declaration, trials=trials, store=store)


def run(seed: int, wall_s: float, outcome: Outcome = Outcome.REACHED, cap_s: float | None = None) -> SeedRun:
    return SeedRun(seed=seed, outcome=outcome, wall_s=wall_s, cap_s=cap_s, usd=None)


def stock(*walls_s: float) -> Trial:
    return Trial(number=0, values={}, runs=tuple(run(seed, wall_s) for seed, wall_s in enumerate(walls_s, start=1)))


def other(*runs: SeedRun, number: int = 1) -> Trial:
    return Trial(number=number, values=VALUES, runs=runs)


def with_file(**changes: object) -> SearchDeclaration:
    return msgspec.structs.replace(DECLARATION, **changes)


def started(trials: Sequence[Trial], declaration: SearchDeclaration = DECLARATION) -> tuple[int, int, float | None]:
    """Return the trial, the seed and the cap of the training that comes next."""
    start = decide_race(situation(trials, declaration))
    assert isinstance(start, Start), start
    return start.trial, start.seed, start.cap_s


def test_the_stock_recipe_runs_all_seeds_first() -> None:
    assert started([stock()]) == (0, 1, pytest.approx(3600 / 3))
    assert started([stock(100)])[:2] == (0, 2)
    waiting = replace(stock(), runs=(*stock(100, 110).runs, run(3, 5, Outcome.RUNNING, cap_s=900.0)))
    assert isinstance(decide_race(situation([waiting])), Wait)


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ((), (1, 1, 100)),
        ((run(1, 60),), (1, 2, 150)),
        ((run(1, 1),), (1, 2, 209)),
        ((run(1, 100), run(2, 100)), (1, 3, 130)),
        ((run(1, 101),), (2, 1, 100)),
    ],
)
def test_a_trial_may_take_what_leaves_it_ahead_of_the_best_one(
    runs: tuple[SeedRun, ...], expected: tuple[int, int, float]
) -> None:
    assert started([stock(100, 110, 120), other(*runs)]) == expected


@pytest.mark.parametrize("outcome", [Outcome.CAPPED, Outcome.CRASHED, Outcome.HUNG, Outcome.MISSED])
def test_a_trial_without_its_target_is_out(outcome: Outcome) -> None:
    assert started([stock(100, 110, 120), other(run(1, 3, outcome, cap_s=100.0))])[0] == 2


def test_a_faster_trial_becomes_the_best_one() -> None:
    best = other(run(1, 50), run(2, 60), run(3, 40))
    known = situation([stock(100, 110, 120), best])
    assert incumbent(known) is best and best_on_all_seeds(known) == [best]
    assert started([stock(100, 110, 120), best]) == (2, 1, 50)


@pytest.mark.parametrize(
    ("outcome", "way_out"),
    [
        (Outcome.MISSED, "--max_iterations"),
        (Outcome.CAPPED, "raise the budget"),
        (Outcome.CRASHED, "move its run away"),
        (Outcome.HUNG, "move its run away"),
    ],
)
def test_without_the_stock_recipe_there_is_no_race(outcome: Outcome, way_out: str) -> None:
    end = decide_race(situation([replace(stock(), runs=(run(1, 10, outcome),))]))
    assert isinstance(end, End) and "seed 1" in end.reason and way_out in end.reason


def test_an_interrupted_training_is_resumed_with_its_cap() -> None:
    start = decide_race(situation([stock(100, 110, 120), other(run(1, 40, Outcome.INTERRUPTED, cap_s=100.0))]))
    assert isinstance(start, Start) and start.resumes and (start.trial, start.cap_s) == (1, 100)


def test_a_budget_for_less_than_one_trial_is_told_after_the_stock_recipe() -> None:
    end = decide_race(situation([stock(100, 110, 120)], declared(331 / 3600)))
    assert isinstance(end, End) and "does not buy one trial" in end.reason


def test_trainings_under_way_hold_back_what_they_may_cost() -> None:
    trials = [stock(100, 110, 120), other(run(1, 5, Outcome.RUNNING, cap_s=100.0))]
    assert isinstance(decide_race(situation(trials, declared(529 / 3600))), Wait)
    assert isinstance(decide_race(situation(trials, declared(531 / 3600))), Start)


def test_dollars_are_counted_by_the_price_of_a_second() -> None:
    dollars = with_file(budget_h=None, budget_usd=1.0, objective="cost")
    known = replace(situation([stock(100, 110)], dollars), usd_per_s=0.001)
    start = decide_race(known)
    assert isinstance(start, Start) and start.cap_s == pytest.approx(790.0)
    assert known.charges(known.stock) == pytest.approx({1: 0.1, 2: 0.11}) and known.seconds(0.1) == pytest.approx(100)


def test_refused_proposals_leave_gaps_in_the_numbers() -> None:
    known = situation([stock(100, 110, 120)])
    seen: list[str] = []

    def refuses(values: object) -> str | None:
        seen.append(str(values))
        return "no" if len(seen) < 3 else None

    start = decide_race(replace(known, refuses=refuses))
    assert isinstance(start, Start) and start.trial == 3 and len(set(seen)) == 3
    assert [each.number for each in known.store.stored()] == [3]
    with pytest.raises(UserError, match=r"none of 200 proposals can be trained with \(no\)"):
        decide_race(replace(situation([stock(100, 110, 120)]), refuses=lambda _: "no"))


def test_stored_trials_are_read_back(tmp_path: Path) -> None:
    store = TrialStore(DECLARATION, tmp_path / "trials.log")
    first = store.propose()
    second = store.add(VALUES, first.number)
    store.refuse(first.number)
    assert TrialStore(DECLARATION, tmp_path / "trials.log").stored() == [second]
    assert (second.number, second.values, second.parent) == (2, VALUES, 1)


def test_the_same_results_give_the_same_trials() -> None:
    declaration = declared(2.0)
    (one, starts), (other_one, others) = (play(declaration, LANDSCAPES["steep"]) for _ in range(2))
    assert starts == others and one.spent == other_one.spent <= 2.0
    assert len({(each.trial, each.seed) for each in starts}) == len(starts)


def test_trials_that_run_at_once_differ() -> None:
    known = situation([stock(100, 110, 120)], declared(2.0))
    for _ in range(4):
        start = decide_race(known)
        assert isinstance(start, Start)
        known = with_run(known, start, run(start.seed, 0, Outcome.RUNNING, cap_s=start.cap_s))
    assert len({str(each.values) for each in known.trials}) == 5


def test_the_parameter_that_decides_is_the_important_one() -> None:
    trials = [
        Trial(number=number, values={**VALUES, "learning_rate": 10.0 ** -(1 + number % 4), "clip": 0.1 + number / 100},
              runs=(run(1, 100.0 * (1 + number % 4) + number),))
        for number in range(1, FEWEST_TRIALS + 5)
    ]  # fmt: skip
    found = importances(situation([stock(100, 110, 120), *trials]))
    assert next(iter(found)) == "learning_rate" and sum(found.values()) == pytest.approx(1.0)
    assert not importances(situation([stock(100, 110, 120), *trials[:5]]))
