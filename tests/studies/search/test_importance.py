"""Importance of a search's parameters."""

from __future__ import annotations

import numpy as np

from benchmarks.search_races import declared
from ledger_lab.studies.search.charges import Charges
from ledger_lab.studies.search.importance import importances
from ledger_lab.studies.search.trials import Outcome, SeedRun, Trial

DECLARATION = declared(1.0)


def trials(count: int) -> list[Trial]:
    generator = np.random.default_rng(3)
    made = []
    for number in range(1, count + 1):
        rate, clip = float(10 ** generator.uniform(-5, -1)), float(generator.uniform(0.05, 0.5))
        wall_s = 10 + abs(np.log10(rate) + 3)
        run = SeedRun(seed=1, outcome=Outcome.REACHED, wall_s=wall_s, usd=None, cap_s=None, started_s=0.0)
        made.append(
            Trial(number=number, values={"learning_rate": rate, "clip": clip, "schedule": "fixed"}, runs=(run,))
        )
    return made


def test_the_only_parameter_that_matters_comes_first() -> None:
    made = trials(60)
    found = importances(DECLARATION, made, Charges.of(DECLARATION, made, None), resamples=10)
    assert found is not None and [each.parameter for each in found][0] == "learning_rate"
    assert {each.parameter for each in found} == {"learning_rate", "clip", "schedule"}
    assert found[0].share > 0.7 and found[0].low > found[1].high


def test_few_trials_tell_nothing() -> None:
    made = trials(19)
    assert importances(DECLARATION, made, Charges.of(DECLARATION, made, None)) is None
