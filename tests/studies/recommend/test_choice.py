"""Which option is chosen."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ledger_lab.studies.recommend.choice import Goal, Limits, chance_within, choose, pareto_front
from ledger_lab.studies.recommend.estimates import FREE, Estimate, Z
from ledger_lab.studies.recommend.options import Basis, Configuration, Option
from ledger_lab.studies.recommend.view import choice_lines, names_of


def estimate(value: float, deviation: float, run_spread: float = 0.2) -> Estimate:
    ends = (value * math.exp(-Z * deviation), value * math.exp(Z * deviation))
    return Estimate(value=value, interval=ends, run_spread=run_spread)


def option(
    name: str, time_s: float, usd: float | None, *, deviation: float = 0.1, ranked: bool = True
) -> Option:  # fmt: skip
    return Option(
        configuration=Configuration(
            instance=name, rl_library="skrl", physics="p", treatment="", processes=1, machines=1, num_envs=64,
            device="cpu", hardware=None,
        ),
        basis=Basis.MEASURED, run_ids=("a",), reached=1, time=estimate(time_s, deviation),
        cost=None if usd is None else estimate(usd, deviation), ranked=ranked,
    )  # fmt: skip


FAST, CHEAP, WORSE = option("fast", 100.0, 4.0), option("cheap", 300.0, 1.0), option("worse", 320.0, 4.5)
OPTIONS = [WORSE, CHEAP, FAST]


def chosen(goal: Goal, limits: Limits | None = None) -> str | None:
    found = choose(OPTIONS, goal, limits or Limits()).option
    return None if found is None else found.configuration.instance


def test_the_fastest_and_the_cheapest_are_chosen() -> None:
    assert (chosen(Goal.TIME), chosen(Goal.MONEY)) == ("fast", "cheap")
    assert choose(OPTIONS, Goal.TIME, Limits()).chance_best == pytest.approx(1.0)
    assert pareto_front(OPTIONS) == [FAST, CHEAP]


def test_limits_are_kept_with_certainty() -> None:
    assert chosen(Goal.MONEY, Limits(deadline_s=150.0)) == "fast"
    assert chosen(Goal.TIME, Limits(budget_usd=1.5)) == "cheap"
    assert chosen(Goal.MONEY, Limits(deadline_s=50.0)) is None
    assert chance_within(FAST, Limits(deadline_s=100.0)) == pytest.approx(0.5), "a median is kept by half of the runs"
    assert chosen(Goal.MONEY, Limits(deadline_s=100.0)) is None
    assert chance_within(option("unpriced", 1.0, None), Limits(budget_usd=1e9)) == 0.0


def test_a_machine_that_is_free_of_charge_is_the_cheapest() -> None:
    free = replace(option("free", 400.0, 1.0), cost=FREE)
    found = choose([*OPTIONS, free], Goal.MONEY, Limits(budget_usd=1e-9))
    assert found.option is free and chance_within(free, Limits(budget_usd=1e-9)) == 1.0
    found = choose([*OPTIONS, free, replace(free, run_ids=("b",))], Goal.MONEY, Limits())
    assert found.option is free and found.chance_best == 1.0
    assert pareto_front([*OPTIONS, free]) == [FAST, CHEAP, free]


def test_a_run_that_misses_the_target_misses_the_deadline() -> None:
    unreliable = replace(option("unreliable", 10.0, 1.0), run_ids=tuple("abcde"), reached=3)
    late = Limits(deadline_s=1e6)
    assert chance_within(unreliable, late) == pytest.approx(0.6)
    found = choose([FAST, unreliable], Goal.MONEY, late)
    assert found.option is FAST
    assert choose([FAST, unreliable], Goal.MONEY, Limits(budget_usd=5.0)).option is unreliable


def test_a_run_that_missed_the_target_counts_once() -> None:
    """The distribution of the times contains the misses already; their share is only an upper bound."""
    own = replace(FAST, run_ids=tuple("abcdefghij"), reached=9)
    assert chance_within(own, Limits(deadline_s=200.0)) == 0.9, (
        "nearly all times are shorter, and one run of ten missed"
    )
    assert chance_within(own, Limits(deadline_s=100.0)) == pytest.approx(0.5)
    assert choose([own], Goal.MONEY, Limits(deadline_s=200.0)).option is own


def test_a_configuration_all_of_whose_runs_were_interrupted_has_no_chance() -> None:
    cut = replace(FAST, run_ids=(), reached=0, time=None, cost=None, ranked=False)
    assert chance_within(cut, Limits(deadline_s=1e9)) == 0.0
    assert choose([*OPTIONS, cut], Goal.TIME, Limits(deadline_s=150.0)).option is FAST


def test_a_better_configuration_with_too_few_runs_is_named() -> None:
    promising = option("promising", 90.0, 0.5, ranked=False)
    found = choose([*OPTIONS, promising], Goal.TIME, Limits())
    assert (found.option, found.unranked) == (FAST, promising) and promising not in pareto_front([promising])
    (line,) = [each for each in choice_lines(found, Limits(), names_of([*OPTIONS, promising])) if "few runs" in each]
    assert "do not suffice to rank it: promising" in line
    assert choose(OPTIONS, Goal.TIME, Limits()).unranked is None
    assert choose([*OPTIONS, promising], Goal.MONEY, Limits(deadline_s=10.0)).unranked is None
