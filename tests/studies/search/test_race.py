"""Races are decided by the ledger alone: by what is in it, not by its order or by when it was read."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.search_races import Landscape, declared, play, with_run
from ledger_lab.errors import UserError
from ledger_lab.ledger.costs import Price
from ledger_lab.studies.search.charges import Charges, Drift, unused_controls
from ledger_lab.studies.search.decisions import Decision, End, Situation, Start, Wait
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.price import TrainingPrice
from ledger_lab.studies.search.proposals import RANDOM_TRIALS
from ledger_lab.studies.search.race import decide_race
from ledger_lab.studies.search.trials import Outcome, Place, SeedRun, Trial

STEEP = Landscape(spread=0.2, steepness=1.0)
DECLARATION = declared(1.0)


def decide(declaration: SearchDeclaration, trials: Sequence[Trial], **known: Any) -> Decision:
    return decide_race(Situation.of(declaration, trials, **known))


def run(seed: int, wall_s: float, outcome: Outcome = Outcome.REACHED, **others: object) -> SeedRun:
    values = {"usd": None, "cap_s": None, "started_s": 0.0, **others}
    return SeedRun(seed=seed, outcome=outcome, wall_s=wall_s, **values)  # type: ignore[arg-type]


def stock(*walls_s: float) -> Trial:
    return Trial(number=0, values={}, runs=tuple(run(seed, wall_s) for seed, wall_s in enumerate(walls_s, start=1)))


def priced(usd_per_hour: float, **billing: float) -> TrainingPrice:
    fields = {"billing_granularity_s": 1e-3, "billing_minimum_s": 0.0, **billing}
    price = Price(
        instance="made-up", market="custom", accelerators=1, usd_per_hour=usd_per_hour, source="s", date="2026-01-01",
        **fields,
    )  # fmt: skip
    return TrainingPrice(price, 1)


VALUES = {"learning_rate": 1e-3, "clip": 0.2, "schedule": "fixed"}


def test_the_stock_recipe_runs_all_seeds_first() -> None:
    start = decide(DECLARATION, [])
    assert isinstance(start, Start) and (start.place, start.values, start.seed) == (Place(0), {}, 1)
    assert start.cap_s == pytest.approx(3600 / 3)
    second = decide(DECLARATION, [stock(100)])
    assert isinstance(second, Start) and (second.place, second.seed) == (Place(0), 2)
    waiting = Trial(number=0, values={}, runs=(*stock(100, 110).runs, run(3, 5, Outcome.RUNNING, cap_s=900.0)))
    assert isinstance(decide(DECLARATION, [waiting]), Wait)


def test_a_new_trial_may_take_as_long_as_the_incumbent_on_its_seed() -> None:
    start = decide(DECLARATION, [stock(100, 110, 120)])
    assert isinstance(start, Start) and (start.place, start.seed, start.cap_s) == (Place(1), 1, 100)
    assert DECLARATION.space.check(start.values) is None


def test_a_trial_that_is_ahead_runs_its_next_seed_up_to_the_incumbents_sum() -> None:
    ahead = Trial(number=1, values=VALUES, runs=(run(1, 60, cap_s=100.0),))
    start = decide(DECLARATION, [stock(100, 110, 120), ahead])
    assert isinstance(start, Start) and (start.place, start.seed, start.cap_s) == (Place(1), 2, 150)


def test_no_seed_may_take_twice_the_incumbents_slowest() -> None:
    ahead = Trial(number=1, values=VALUES, runs=(run(1, 1),))
    start = decide(DECLARATION, [stock(300, 50, 50), ahead])
    assert isinstance(start, Start) and start.cap_s == 349
    assert start.cap_s < 2 * 300
    spread = Trial(number=1, values=VALUES, runs=(run(1, 1), run(2, 1)))
    start = decide(DECLARATION, [stock(100, 100, 100), spread])
    assert isinstance(start, Start) and start.cap_s == 200


@pytest.mark.parametrize("outcome", [Outcome.CAPPED, Outcome.CRASHED, Outcome.HUNG, Outcome.MISSED])
def test_a_trial_without_its_target_is_out(outcome: Outcome) -> None:
    out = Trial(number=1, values=VALUES, runs=(run(1, 3, outcome, cap_s=100.0),))
    start = decide(DECLARATION, [stock(100, 110, 120), out])
    assert isinstance(start, Start) and start.place == Place(2)


def test_the_number_of_a_refused_trial_is_not_used_again() -> None:
    first = decide(DECLARATION, [stock(100, 110, 120)])
    second = decide(DECLARATION, [stock(100, 110, 120)], skipped={1, 2})
    assert isinstance(first, Start) and isinstance(second, Start)
    assert second.place == Place(3) and second.values != first.values


def test_a_faster_trial_becomes_the_incumbent() -> None:
    best = Trial(number=1, values=VALUES, runs=(run(1, 50), run(2, 60), run(3, 40)))
    start = decide(DECLARATION, [stock(100, 110, 120), best])
    assert isinstance(start, Start) and (start.place, start.cap_s) == (Place(2), 50)


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
    end = decide(DECLARATION, [Trial(number=0, values={}, runs=(run(1, 10, outcome),))])
    assert isinstance(end, End) and "seed 1" in end.reason and way_out in end.reason


def test_an_interrupted_training_is_resumed_with_its_cap() -> None:
    half = Trial(number=1, values=VALUES, runs=(run(1, 40, Outcome.INTERRUPTED, cap_s=100.0),))
    start = decide(DECLARATION, [stock(100, 110, 120), half])
    assert isinstance(start, Start) and start.resumes and (start.place, start.cap_s) == (Place(1), 100)


def test_a_budget_for_less_than_one_trial_is_told_after_the_stock_recipe() -> None:
    end = decide(declared(331 / 3600), [stock(100, 110, 120)])
    assert isinstance(end, End) and "does not buy one trial" in end.reason


def test_trainings_under_way_hold_back_what_they_may_cost() -> None:
    under_way = Trial(number=1, values=VALUES, runs=(run(1, 5, Outcome.RUNNING, cap_s=100.0),))
    assert isinstance(decide(declared(529 / 3600), [stock(100, 110, 120), under_way]), Wait)
    assert isinstance(decide(declared(531 / 3600), [stock(100, 110, 120), under_way]), Start)


def test_dollars_need_a_price() -> None:
    dollars = replace(DECLARATION, budget_h=None, budget_usd=1.0)
    with pytest.raises(UserError, match="no price"):
        decide(dollars, [])
    with pytest.raises(UserError, match="costs nothing"):
        decide(dollars, [], price=priced(0.0))
    start = decide(dollars, [], price=priced(3.6))
    assert isinstance(start, Start) and start.cap_s == pytest.approx(1000 / 3, abs=1e-3)


def test_what_is_billed_by_the_hour_takes_a_whole_hour_from_the_budget() -> None:
    hourly = priced(1.0, billing_granularity_s=3600.0, billing_minimum_s=3600.0)
    dollars = replace(DECLARATION, budget_h=None, budget_usd=3.5)
    start = decide(dollars, [], price=hourly)
    assert isinstance(start, Start) and start.cap_s == 3600.0, "three trainings of an hour each"
    assert isinstance(decide(replace(dollars, budget_usd=2.5), [], price=hourly), End), "two hours do not buy three"
    ended = [replace(each, usd=1.0) for each in stock(100, 110, 120).runs]
    end = decide(dollars, [replace(stock(1), runs=tuple(ended))], price=hourly)
    assert isinstance(end, End) and "does not buy one trial" in end.reason, "a minute costs as much as an hour"


def test_costs_are_compared_as_they_are_billed() -> None:
    least = priced(3.6, billing_minimum_s=60.0)
    cheap = replace(DECLARATION, objective="cost")
    charges = Charges.of(cheap, [stock(20, 50, 100)], least)
    assert [*charges.by_trial[0].values()] == pytest.approx([0.06, 0.06, 0.1])
    assert charges.seconds(0.06) == pytest.approx(60.0)


def test_the_energy_of_an_own_machine_is_part_of_the_price() -> None:
    own = Price(
        instance="desk", market="owned", accelerators=1, purchase_usd=3600.0, lifetime_years=1.0, utilization=0.5,
        usd_per_kwh=0.5, power_w=400.0, source="s", date="2026-01-01", billing_granularity_s=1e-3,
        billing_minimum_s=0.0,
    )  # fmt: skip
    price = TrainingPrice(own, 1)
    assert price.usd(3600.0) == pytest.approx((own.usd_per_hour or 0.0) + 0.2)
    assert price.seconds(price.usd(1234.0)) == pytest.approx(1234.0)


def test_a_control_on_another_machine_shows_nothing() -> None:
    runs = (run(1, 100, step_s=1.0, machine="a"), run(1, 300, step_s=3.0, repeat=1, started_s=10.0, machine="b"))
    trials = [Trial(number=0, values={}, runs=runs)]
    assert unused_controls(trials) == 1
    assert Drift.of("a", trials).at(10) == Drift.of("b", trials).at(10) == 1.0


def test_a_control_shows_the_drift_of_a_machine() -> None:
    runs = (run(1, 100, step_s=1.0), run(1, 150, step_s=1.5, repeat=1, started_s=10.0))
    drift = Drift.of("", [Trial(number=0, values={}, runs=runs)])
    assert unused_controls([Trial(number=0, values={}, runs=runs)]) == 0
    assert (drift.at(9), drift.at(10)) == (1.0, 1.5)


@pytest.mark.parametrize("outcome", [Outcome.CRASHED, Outcome.HUNG])
def test_a_control_without_a_result_shows_no_drift(outcome: Outcome) -> None:
    runs = (run(1, 100, step_s=1.0), run(1, 3, outcome, step_s=9.0, repeat=1, started_s=10.0))
    assert Drift.of("", [Trial(number=0, values={}, runs=runs)]).at(10) == 1.0
    runs = (run(1, 3, outcome, step_s=9.0), run(1, 100, step_s=1.0, repeat=1, started_s=10.0))
    assert Drift.of("", [Trial(number=1, values=VALUES, runs=runs)]).at(10) == 1.0


def test_a_slower_machine_raises_caps() -> None:
    first = replace(stock(100, 110, 120), runs=tuple(replace(each, step_s=1.0) for each in stock(100, 110, 120).runs))
    control = run(1, 200, step_s=2.0, repeat=1, started_s=10.0)
    start = decide(DECLARATION, [replace(first, runs=(*first.runs, control))])
    assert isinstance(start, Start) and start.cap_s == 200


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**20), st.sampled_from(["tpe", "random"]))
def test_the_same_ledger_gives_the_same_decisions(number: int, strategy: str) -> None:
    declaration, landscape = declared(2.5, strategy, number), replace(STEEP, number=number)
    trials, starts = play(declaration, landscape)
    spent_s = sum(each.wall_s for trial in trials for each in trial.runs)
    assert spent_s <= 2.5 * 3600
    assert len({(each.place, each.seed) for each in starts}) == len(starts)
    assert trials[-1].number > RANDOM_TRIALS or strategy == "random"  # learned proposals are among them
    shuffle = random.Random(number)
    kill_at = shuffle.randrange(len(starts))
    again: list[Trial] = []
    at_s = 0.0
    for turn, start in enumerate(starts):
        mixed = [replace(each, runs=tuple(shuffle.sample(each.runs, len(each.runs)))) for each in again]
        assert decide(declaration, shuffle.sample(mixed, len(mixed))) == start
        trained = landscape.train(start, at_s)
        if turn == kill_at:  # the search is killed with its training, and both begin again
            half = replace(trained, outcome=Outcome.INTERRUPTED, wall_s=trained.wall_s / 2)
            assert decide(declaration, with_run(again, start, half)) == replace(start, resumes=True)
        again, at_s = with_run(again, start, trained), at_s + trained.wall_s
    assert isinstance(decide(declaration, again), End)


def test_several_at_once_differ_and_do_not_depend_on_order() -> None:
    declaration, trials = declared(2.0), [stock(100, 110, 120)]
    for _ in range(4):
        start = decide(declaration, trials)
        assert isinstance(start, Start) and start == decide(declaration, trials[::-1])
        trials = with_run(trials, start, run(start.seed, 0, Outcome.RUNNING, cap_s=start.cap_s))
    assert len({str(each.values) for each in trials}) == 5
