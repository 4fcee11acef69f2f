"""Common evaluators miss the true success; running each seed once gives it exactly."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.evaluators import examine, run_vectorized


def test_a_free_environment_runs_the_next_seed() -> None:
    seeds, ends = run_vectorized(np.array([5, 2, 1, 1, 9]), num_envs=2)
    assert seeds.tolist() == [1, 2, 3, 0, 4]
    assert ends.tolist() == [2, 3, 4, 5, 13]


def test_counting_first_finished_episodes_is_more_biased_with_more_environments() -> None:
    errors = {}
    for num_envs in (16, 64, 256, 1024):
        found = examine(num_envs, 256, 0.6, 20, np.random.default_rng(7))
        errors[num_envs] = {finding.evaluator: finding for finding in found}
    for evaluator in ("first N finished", "fixed number of frames"):
        biases = [errors[num_envs][evaluator].mean_error for num_envs in errors]
        assert 0.005 < biases[0] < 0.04 < biases[1] < biases[2]
        assert biases[3] == pytest.approx(0.4, abs=0.03)
    assert errors[256]["last 100 finished"].mean_error > 0.3
    assert {errors[num_envs]["each seed once"].max_error for num_envs in errors} == {0.0}
