"""What measured runs and laws say about each configuration."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks.recommend import Truth
from ledger_lab.studies.recommend.choice import Goal, Limits, choose
from ledger_lab.studies.recommend.estimates import FREE, time_to_target
from ledger_lab.studies.recommend.options import Basis, measured_options
from ledger_lab.studies.recommend.predicted import predicted_options
from ledger_lab.studies.recommend.recommendation import recommend
from ledger_lab.studies.recommend.view import choice_lines, names_of
from ledger_lab.studies.scaling import ScaledRun
from tests.fakes.scaled import PRICE, scaled

TRUTH = Truth(contention=0.1, critical_batch=8000.0, spread=0.1, discount=0.9, held_back=4)


def runs(*sizes: int) -> list[ScaledRun]:
    generator = np.random.default_rng(5)
    return [TRUTH.run(size, seed, generator) for size in sizes for seed in range(3)]


def test_a_held_back_machine_is_predicted_from_the_price_book() -> None:
    book = {price.instance: price for price in map(TRUTH.price, (1, 2, 4, 8))}
    found = {each.configuration.instance: each for each in predicted_options(runs(1, 2, 8), book)}
    assert set(found) == {"machine-4"}, "other sizes were measured, and no machine has 16 accelerators"
    option = found["machine-4"]
    assert option.basis is Basis.PREDICTED and option.configuration.processes == 4 and len(option.run_ids) == 9
    assert option.time is not None and option.cost is not None
    assert option.time.interval[0] < TRUTH.median_s(4) < option.time.interval[1]
    assert option.cost.interval[0] < TRUTH.cost_usd(4) < option.cost.interval[1]
    assert "nothing was measured on this machine" in option.notes


def test_nothing_is_predicted_without_a_law_or_a_machine() -> None:
    book = {price.instance: price for price in map(TRUTH.price, (1, 2, 4, 8))}
    assert predicted_options(runs(1, 2), book) == []
    assert predicted_options(runs(1, 2), {}) == []
    other = {"machine-4": replace(TRUTH.price(4), accelerator="B")}
    assert [each.configuration.processes for each in predicted_options(runs(1, 2, 8), other)] == [4], (
        "four processes fit on the machine with eight accelerators"
    )


@pytest.mark.parametrize(
    ("reached", "time_known", "cost_known", "said"),
    [
        (5, True, True, ()),
        (3, True, True, ()),
        (2, False, True, ("too few runs reached",)),
        (0, False, False, ("too",)),
    ],
)
def test_runs_that_missed_the_target_count(
    reached: int, time_known: bool, cost_known: bool, said: tuple[str, ...]
) -> None:
    own = [replace(scaled(steps=4000 + 50 * n, reached=n < reached, run_id=f"{n}"), price=PRICE) for n in range(5)]
    (option,) = measured_options(own)
    assert (option.time is not None, option.cost is not None) == (time_known, cost_known)
    assert option.reached == reached and option.ranked
    assert all(any(note.startswith(each) for note in option.notes) for each in said)
    if option.cost is not None:
        assert option.cost.value == pytest.approx(sum(each.billable_usd or 0 for each in own) / reached)


def test_runs_that_were_given_up_are_paid_and_did_not_reach_the_target() -> None:
    own = priced(5)
    cut = [
        scaled(steps=100_000, reached=False, interrupted=True, run_id=f"cut{n}", billable_usd=0.05) for n in range(4)
    ]
    with_cut = [*own, *(replace(each, price=PRICE) for each in cut)]
    (alone,), (option,) = measured_options(own), measured_options(with_cut)
    assert (option.reached, len(option.run_ids)) == (5, 9)
    assert option.notes == ("4 of its runs were interrupted, and count as short of the target",)
    assert alone.cost is not None and option.cost is not None
    assert option.cost.value == pytest.approx(alone.cost.value + 0.05 * 4 / 5)
    assert option.cost.interval[0] < option.cost.value < option.cost.interval[1]
    assert alone.time is not None and option.time is not None and option.time.value > alone.time.value
    assert option.time.interval[1] == math.inf, "nearly half of the runs are only known to take longer"


def test_a_machine_is_not_the_cheapest_if_its_hopeless_runs_were_given_up() -> None:
    dear = replace(PRICE, instance="dear", usd_per_hour=4.5)
    steady = [
        replace(scaled(steps=4000 + 50 * n, run_id=f"s{n}", instance="dear", billable_usd=0.009), price=dear)
        for n in range(6)
    ]
    cut = [scaled(steps=50_000, reached=False, interrupted=True, run_id=f"c{n}", billable_usd=0.05) for n in range(4)]
    erratic = [*priced(6), *(replace(each, price=PRICE) for each in cut)]
    cheapest = choose(measured_options([*steady, *erratic]), Goal.MONEY, Limits()).option
    assert cheapest is not None and cheapest.configuration.instance == "dear"
    assert choose(measured_options([*steady, *priced(6)]), Goal.MONEY, Limits()).option != cheapest


def test_the_figures_of_the_best_of_several_have_intervals_that_hold_for_all() -> None:
    own = [
        replace(
            replace(each, run_id=f"{machine}-{each.run_id}", instance=f"{machine}"),
            price=replace(PRICE, instance=f"{machine}"),
        )
        for machine in range(4)
        for each in priced(6 + machine)
    ]
    alone, *_ = recommend(own[:6], {}, Limits()).choices
    assert (alone.among, alone.together) == (1, None)
    found = recommend(own, {}, Limits())
    for choice in found.choices:
        best, wider = choice.option, choice.together
        assert choice.among == 4 and best is not None and wider is not None and best.run_ids == wider.run_ids
        for narrow, wide in ((best.time, wider.time), (best.cost, wider.cost)):
            assert narrow is not None and wide is not None and narrow.value == wide.value
            assert wide.interval[0] < narrow.interval[0] and narrow.interval[1] < wide.interval[1]
        assert any(
            "hold for all 4 together" in line for line in choice_lines(choice, Limits(), names_of(found.options))
        )


def test_interrupted_runs_of_predicted_sizes_are_paid() -> None:
    book = {"machine-4": TRUTH.price(4)}
    own = runs(1, 2, 8)
    first = next(each for each in own if each.processes == 2)
    cut = replace(first, run_id="cut", reached=False, interrupted=True)
    (alone,), (option,) = (predicted_options(each, book) for each in (own, [*own, cut]))
    assert (option.reached, len(option.run_ids)) == (9, 10)
    assert alone.cost is not None and option.cost is not None
    assert option.cost.value > 1.05 * alone.cost.value


def test_further_runs_of_a_training_are_paid() -> None:
    own = priced(5)
    more = [replace(own[0], repeated_usd=0.1), *own[1:]]
    (alone,), (option,) = measured_options(own), measured_options(more)
    assert alone.cost is not None and option.cost is not None
    assert option.cost.value == pytest.approx(alone.cost.value + 0.1 / 5)


def test_the_interval_of_a_median_holds_for_times_of_two_kinds() -> None:
    generator, held = np.random.default_rng(1), 0
    for _ in range(40):
        steps = np.where(generator.random(20) < 0.45, 100_000, 1000) + generator.integers(100, size=20)
        low, high = time_to_target([scaled(steps=int(each), run_id=f"{n}") for n, each in enumerate(steps)]).interval
        held += low <= scaled(steps=1090).identity.time_s <= high
    assert held >= 37


@pytest.mark.parametrize(
    ("count", "confidence", "ends"), [(6, 0.95, (0, 5)), (20, 0.95, (5, 14)), (20, 0.995, (3, 16))]
)
def test_the_interval_of_a_median_contains_two_order_statistics(
    count: int, confidence: float, ends: tuple[int, int]
) -> None:
    times = [scaled(steps=1000 + (100_000 + n if n > count // 2 else n), run_id=f"{n}") for n in range(count)]
    low, high = time_to_target(times, confidence).interval
    assert low <= times[ends[0]].identity.time_s and high >= times[ends[1]].identity.time_s
    covered = binom.cdf(ends[1], count, 0.5) - binom.cdf(ends[0], count, 0.5)
    assert (
        covered >= confidence and binom.cdf(ends[1] - 1, count, 0.5) - binom.cdf(ends[0] + 1, count, 0.5) < confidence
    )


def test_four_runs_are_shown_and_not_ranked() -> None:
    own = [replace(scaled(steps=4000 + 50 * n, run_id=f"{n}"), price=PRICE) for n in range(4)]
    (option,) = measured_options(own)
    assert not option.ranked and option.notes == ("not ranked: it needs at least 5 runs, and has 4",)


def priced(count: int = 5, **changes: object) -> list[ScaledRun]:
    return [replace(scaled(steps=4000 + 50 * n, run_id=f"{n}", **changes), price=PRICE) for n in range(count)]


def test_the_interval_of_a_time_contains_it() -> None:
    skewed = [scaled(steps=1000 if n < 11 else 100_000 + n, run_id=f"{n}") for n in range(20)]
    found = time_to_target(skewed)
    assert found.interval[0] <= found.value == skewed[0].time_to_target_s <= found.interval[1]


def test_a_free_machine_costs_nothing() -> None:
    (option,) = measured_options(priced(usd_per_hour=0.0, billable_usd=0.0))
    assert option.cost == FREE and not option.notes
    (option,) = measured_options(priced(usd_per_hour=0.0, billable_usd=0.0, reached=False))
    assert option.cost is None
    free = {f"machine-{size}": replace(TRUTH.price(size), usd_per_hour=0.0) for size in (1, 2, 4, 8)}
    own = [replace(each, price=free[each.price.instance]) for each in runs(1, 2, 8)]
    (predicted,) = predicted_options(own, free)
    assert predicted.cost == FREE and "no cost: unpriced" not in predicted.notes


def test_costs_that_mix_prices_or_longer_trainings_say_so() -> None:
    own = priced(3, usd_per_hour=3.6) + priced(2, usd_per_hour=1.0)
    (option,) = measured_options(own)
    assert "its cost mixes 2 prices, $1 and $3.6 per hour: name runs of one price" in option.notes
    (option,) = measured_options(priced(4) + priced(1, status="completed"))
    assert option.notes == ("its cost includes what 1 of its runs trained on after the target",)


def test_no_prediction_on_a_spot_machine_forgets_preemptions() -> None:
    own = [replace(each, price=replace(each.price, market="spot")) for each in runs(1, 2, 8)]
    assert predicted_options(own, {}) == []
    found = predicted_options(own, {"machine-4": TRUTH.price(4)})
    assert {each.configuration.instance for each in found} == {"machine-4"}


def on_a_cpu(instance: str, rates: dict[int, float]) -> list[ScaledRun]:
    """Return three runs of each number of processes on a machine, with a rate for each."""
    price = replace(PRICE, instance=instance)
    return [
        replace(scaled(
                size, 64 // size, rate=rate * (1 + 0.01 * seed), steps=100_000 + 1000 * seed, seed=seed,
                run_id=f"{instance}-{size}-{seed}", instance=instance, hardware="Xeon",
            ),
            price=price,
        )
        for size, rate in rates.items()
        for seed in range(3)
    ]  # fmt: skip


def test_a_fast_machine_tells_nothing_of_a_slow_one_with_the_same_processor() -> None:
    slow, fast = {1: 1000.0, 4: 3000.0}, {1: 6000.0, 2: 9000.0, 8: 14_400.0}
    own = [*on_a_cpu("slow", slow), *on_a_cpu("fast", fast)]
    predicted = predicted_options(own, {})
    assert {each.configuration.instance for each in predicted} == {"fast"}, "two sizes of the slow one give no law"
    assert predicted == predicted_options(on_a_cpu("fast", fast), {})


def test_machines_that_stand_for_their_processes_are_taken_together() -> None:
    own = [run for size in (1, 2, 4) for run in on_a_cpu(f"cores-{size}", {size: 1000.0 * 2 * size / (1 + size)})]
    cheap = [replace(each, price=replace(each.price, usd_per_hour=1.0)) for each in own if each.processes == 4]
    found = predicted_options([*own[:6], *cheap], {})
    assert {(each.configuration.instance, each.configuration.processes) for each in found} == {
        ("cores-4", 1),
        ("cores-4", 2),
    }, "fewer processes on the cheapest machine"
    assert {len(each.run_ids) for each in found} == {9}


@pytest.mark.parametrize(("factor", "together"), [(1.0, True), (1.5, False)])
def test_machines_with_the_same_accelerator_are_taken_together_if_their_rates_agree(
    factor: float, together: bool
) -> None:
    own = runs(1, 2, 8)
    other = replace(TRUTH.price(8), instance="other")

    def moved(each: ScaledRun) -> ScaledRun:
        identity = replace(each.identity, training_s=each.identity.training_s / factor)
        run = replace(each, run_id=f"o{each.run_id}", instance="other", identity=identity)
        return replace(run, price=other)

    found = predicted_options([*own, *map(moved, runs(1, 8))], {"machine-4": TRUTH.price(4)})
    assert bool([each for each in found if len(each.run_ids) == 15]) is together


def test_the_cheapest_machine_is_that_with_the_smallest_bill() -> None:
    one = replace(TRUTH.price(1), usd_per_hour=2.0)
    own = [replace(each, price=one, instance=one.instance) for each in runs(1, 2, 8)]
    book = {"eight": replace(TRUTH.price(8), instance="eight", usd_per_hour=7.0)}
    (option,) = [each for each in predicted_options(own, book) if each.configuration.processes == 4]
    assert option.configuration.instance == "eight", "four instances with one accelerator cost 8 USD per hour"


def test_no_cost_is_predicted_if_a_size_never_reaches_the_target() -> None:
    price = replace(PRICE, accelerator="A")

    def measured(processes: int, num_envs: int, count: int, steps: int, **changes: Any) -> list[ScaledRun]:
        rate = 1000.0 * processes**0.9
        return [
            replace(scaled(
                    processes, num_envs, rate=rate * (1 + 0.01 * seed), steps=steps + 100 * seed, seed=seed,
                    run_id=f"{processes}x{num_envs}-{seed}", device="cuda:0", hardware="A", **changes,
                ),
                price=price,
            )
            for seed in range(count)
        ]  # fmt: skip

    own = [
        *measured(1, 64, 1, 5000),
        *measured(2, 64, 2, 9000, reached=False),
        *measured(4, 64, 2, 9000, reached=False),
        *measured(1, 16, 3, 4000),
        *measured(1, 256, 3, 9000),
        *measured(2, 96, 2, 7500),
    ]
    book = {
        "eight": replace(price, instance="eight", accelerators=8, market="on-demand", region="any", usd_per_hour=1.0)
    }
    found = [each for each in predicted_options(own, book) if each.reached == 1]
    assert found and all(each.cost is None for each in found)
    assert "no cost: with 2 × 64, 4 × 64 environments, no run reached the target" in found[0].notes


def test_samples_of_replay_memories_tell_nothing_of_another_number_of_processes() -> None:
    book = {price.instance: price for price in map(TRUTH.price, (1, 2, 4, 8))}

    def strong(minibatches: int | None) -> list[int]:
        own = [replace(each, num_envs=64 // each.processes, minibatches=minibatches) for each in runs(1, 2, 8)]
        return [option.configuration.processes for option in predicted_options(own, book)]

    assert strong(1) == [4], "the batch of an iteration is the same in all sizes"
    assert strong(None) == [], "each process draws a batch of its own"
