"""Simulations of studies, of the log-rank test, and of figures over several tasks count what the product claims."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import across_tasks, log_rank, studies


def test_few_seeds_claim_nothing() -> None:
    slower = studies.Scenario(seeds=4, miss_rate=0.0, factor=3.0)
    found = studies._count(slower, 10, np.random.default_rng(1))
    assert (found.studies, found.claiming, found.claiming_by_intervals) == (10, 0, 0)


def test_a_large_difference_is_claimed() -> None:
    slower = studies.Scenario(seeds=10, miss_rate=0.0, factor=3.0)
    assert studies._count(slower, 5, np.random.default_rng(1)).claiming == 5


def test_three_runs_are_never_significant_by_permutation() -> None:
    size = log_rank._count(3, 0.0, 60, np.random.default_rng(1))
    assert (size.pairs, size.found) == (60, 0)
    assert size.found_usual > 0


def test_intervals_over_tasks_are_held_against_the_true_figures() -> None:
    scenario = across_tasks.Scenario(tasks=2, runs=5, miss_rate=0.0, shift=0.0)
    found = across_tasks._cover(scenario, 10, np.random.default_rng(1))
    assert [each.figure for each in found] == [*across_tasks.FIGURES]
    assert found[1].true == pytest.approx(0.5, abs=0.01)
    assert all(each.covered >= 6 for each in found)
