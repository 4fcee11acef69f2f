"""Simulated ledgers: the truly best machine is recommended."""

from __future__ import annotations

import numpy as np

from benchmarks.recommend import Truth, try_out


def test_recommendations_are_near_the_best() -> None:
    truth = Truth(contention=0.05, critical_batch=4096.0, spread=0.1, discount=0.9)
    found = try_out(truth, 5, np.random.default_rng(1))
    assert (found.fastest, found.measured) == (5, 20)
    assert found.cheapest >= 4 and found.excess < 0.02
    assert found.measured_time_held >= 17 and found.measured_cost_held >= 17
