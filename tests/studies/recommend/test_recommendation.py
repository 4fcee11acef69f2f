"""What measured runs say about each configuration, and which one is chosen."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from scipy.stats import binom

from ledger_lab.studies.recommend.estimates import FREE, Estimate, Z, time_to_target
from ledger_lab.studies.recommend.recommendation import (
    Goal,
    Limits,
    Option,
    chance_within,
    choose,
    measured_options,
    pareto_front,
    recommend,
)
from ledger_lab.studies.scaling.points import ScaledRun
from tests.fakes.scaled import scaled


def priced(count: int = 5, **changes: object) -> list[ScaledRun]:
    return [scaled(steps=4000 + 50 * n, **{"run_id": f"{n}", **changes}) for n in range(count)]  # type: ignore[arg-type]


def option(name: str, time_s: float, usd: float | None, *, runs: int = 5, reached: int | None = None) -> Option:
    """Return a configuration whose time and cost are known to 10 %."""

    def estimate(value: float) -> Estimate:
        ends = (value * math.exp(-Z * 0.1), value * math.exp(Z * 0.1))
        return Estimate(value=value, interval=ends, run_spread=0.2)

    members = [
        scaled(instance=name, run_id=f"{name}{n}", steps=4000 + n, reached=reached is None or n < reached)
        for n in range(runs)
    ]
    (measured,) = measured_options(members)
    return replace(measured, time=estimate(time_s), cost=None if usd is None else estimate(usd))


FAST, CHEAP, WORSE = option("fast", 100.0, 4.0), option("cheap", 300.0, 1.0), option("worse", 320.0, 4.5)
OPTIONS = [WORSE, CHEAP, FAST]


def chosen(goal: Goal, limits: Limits | None = None, options: list[Option] = OPTIONS) -> str | None:
    found = choose(options, goal, limits or Limits()).option
    return None if found is None else found.setting.instance


def test_the_fastest_and_the_cheapest_are_chosen_within_limits() -> None:
    assert (chosen(Goal.TIME), chosen(Goal.MONEY)) == ("fast", "cheap")
    assert choose(OPTIONS, Goal.TIME, Limits()).chance_best == pytest.approx(1.0)
    assert pareto_front(OPTIONS) == [FAST, CHEAP]
    assert chosen(Goal.MONEY, Limits(deadline_s=150.0)) == "fast"
    assert chosen(Goal.TIME, Limits(budget_usd=1.5)) == "cheap"
    assert chosen(Goal.MONEY, Limits(deadline_s=50.0)) is None
    assert chance_within(FAST, Limits(deadline_s=100.0)) == pytest.approx(0.5), "a median is kept by half of the runs"
    assert chosen(Goal.MONEY, Limits(deadline_s=100.0)) is None
    assert chance_within(option("unpriced", 1.0, None), Limits(budget_usd=1e9)) == 0.0
    few = option("few", 1.0, 0.1, runs=4)
    assert not few.ranked and chosen(Goal.TIME, options=[*OPTIONS, few]) == "fast" and pareto_front([few]) == []
    assert [Limits(deadline_s=1.0).goals, Limits(budget_usd=1.0).goals] == [(Goal.MONEY,), (Goal.TIME,)]


def test_a_machine_that_is_free_of_charge_is_the_cheapest() -> None:
    free = replace(option("free", 400.0, 1.0), cost=FREE)
    assert chosen(Goal.MONEY, Limits(budget_usd=1e-9), [*OPTIONS, free]) == "free"
    assert chance_within(free, Limits(budget_usd=1e-9)) == 1.0
    assert choose([*OPTIONS, free], Goal.MONEY, Limits()).chance_best == 1.0
    assert pareto_front([*OPTIONS, free]) == [FAST, CHEAP, free]
    (measured,) = measured_options(priced(usd_per_hour=0.0, billable_usd=0.0))
    assert measured.cost == FREE
    (measured,) = measured_options(priced(usd_per_hour=0.0, billable_usd=0.0, reached=False))
    assert measured.cost is None


def test_a_run_that_misses_the_target_misses_the_deadline() -> None:
    unreliable = option("unreliable", 10.0, 1.0, reached=3)
    assert chance_within(unreliable, Limits(deadline_s=1e6)) == pytest.approx(0.6)
    assert chosen(Goal.MONEY, Limits(deadline_s=1e6), [FAST, unreliable]) == "fast"
    assert chosen(Goal.MONEY, Limits(budget_usd=5.0), [FAST, unreliable]) == "unreliable"
    nearly = option("nearly", 100.0, 4.0, runs=10, reached=9)
    assert chance_within(nearly, Limits(deadline_s=200.0)) == 0.9, "the times contain the miss; it counts once"
    assert chance_within(nearly, Limits(deadline_s=100.0)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("reached", "time_known", "cost_known", "said"),
    [(5, True, True, ""), (3, True, True, ""), (2, False, True, "too few runs reached"), (0, False, False, "too")],
)
def test_runs_that_missed_the_target_count(reached: int, time_known: bool, cost_known: bool, said: str) -> None:
    own = [scaled(steps=4000 + 50 * n, reached=n < reached, run_id=f"{n}") for n in range(5)]
    (found,) = measured_options(own)
    assert (found.time is not None, found.cost is not None) == (time_known, cost_known)
    assert found.reached == reached and found.ranked
    assert not said or any(note.startswith(said) for note in found.notes)
    if found.cost is not None:
        assert found.cost.value == pytest.approx(sum(each.summary.billable_usd or 0 for each in own) / reached)


def test_runs_that_were_given_up_are_paid_and_did_not_reach_the_target() -> None:
    own = priced(5)
    cut = [scaled(steps=100_000, reached=False, unfinished=True, run_id=f"cut{n}", billable_usd=0.05) for n in range(4)]
    (alone,), (found,) = measured_options(own), measured_options([*own, *cut])
    assert (found.reached, found.runs) == (5, 9)
    assert "4 of its runs were interrupted, and count as short of the target" in found.notes
    assert alone.cost is not None and found.cost is not None
    assert found.cost.value == pytest.approx(alone.cost.value + 0.05 * 4 / 5)
    assert found.cost.interval[0] < found.cost.value < found.cost.interval[1]
    assert alone.time is not None and found.time is not None and found.time.value > alone.time.value
    assert found.time.interval[1] == math.inf, "nearly half of the runs are only known to take longer"
    steady = priced(6, instance="dear", billable_usd=0.009)
    cheapest = choose(measured_options([*steady, *priced(6), *cut]), Goal.MONEY, Limits()).option
    assert cheapest is not None and cheapest.setting.instance == "dear", "the other machine has hopeless runs"


def test_the_figures_of_the_best_of_several_have_intervals_that_hold_for_all() -> None:
    own = [run for machine in range(4) for run in priced(6 + machine, instance=f"{machine}")]
    for choice in recommend(own[:6], Limits()).choices:
        assert choice.among == 1 and choice.option is not None
    found = recommend(own, Limits())
    for choice in found.choices:
        best = choice.option
        assert choice.among == 4 and best is not None
        narrow = next(each for each in found.options if each.setting == best.setting)
        for own_figure, wide in ((narrow.time, best.time), (narrow.cost, best.cost)):
            assert own_figure is not None and wide is not None and own_figure.value == wide.value
            assert wide.interval[0] < own_figure.interval[0] and own_figure.interval[1] < wide.interval[1]


def test_costs_that_mix_prices_or_longer_trainings_say_so() -> None:
    (found,) = measured_options(priced(3, usd_per_hour=3.6) + priced(2, usd_per_hour=1.0))
    assert "its cost mixes 2 prices, $1 and $3.6 per hour: name runs of one price" in found.notes
    (found,) = measured_options(priced(4) + priced(1, status="completed"))
    assert "its cost includes what 1 of its runs trained on after the target" in found.notes


@pytest.mark.parametrize(
    ("count", "confidence", "ends"), [(6, 0.95, (0, 5)), (20, 0.95, (5, 14)), (20, 0.995, (3, 16))]
)
def test_the_interval_of_a_median_contains_two_order_statistics(
    count: int, confidence: float, ends: tuple[int, int]
) -> None:
    times = [scaled(steps=1000 + (100_000 + n if n > count // 2 else n), run_id=f"{n}") for n in range(count)]
    found = time_to_target(times, confidence)
    low, high = found.interval
    assert low <= found.value <= high
    assert low <= times[ends[0]].identity.time_s and high >= times[ends[1]].identity.time_s

    def covered(first: int, last: int) -> float:
        return float(binom.cdf(last, count, 0.5) - binom.cdf(first, count, 0.5))

    assert covered(*ends) >= confidence > covered(ends[0] + 1, ends[1] - 1)
