"""Common evaluators miss the true success; running each seed once gives it exactly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.evaluators import bench_evaluators, examine, run_vectorized
from ledger_lab.errors import UserError


def test_a_free_environment_runs_the_next_seed() -> None:
    seeds, ends = run_vectorized(np.array([5, 2, 1, 1, 9]), num_envs=2)
    assert seeds.tolist() == [1, 2, 3, 0, 4]
    assert ends.tolist() == [2, 3, 4, 5, 13]


def test_episodes_that_end_at_the_same_step_are_ordered_by_environment() -> None:
    seeds, _ = run_vectorized(np.array([4, 2, 2]), num_envs=2)
    assert seeds.tolist() == [1, 0, 2]


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


@pytest.mark.parametrize("success", [0.0, 1.0])
def test_every_evaluator_is_exact_for_a_constant_policy(success: float) -> None:
    found = examine(64, 256, success, 2, np.random.default_rng(7))
    assert {finding.max_error for finding in found} == {0.0}


def test_the_script_prints_and_writes_every_evaluator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench_evaluators(["--panels", "2", "--json", str(tmp_path / "evaluators.json")]) == 0
    printed = capsys.readouterr().out
    for word in ("num_envs", "1024", "first N finished", "each seed once", "+0.0 ± 0.0"):
        assert word in printed
    assert len(json.loads((tmp_path / "evaluators.json").read_text())["findings"]) == 32


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(UserError, match="--success in"):
        bench_evaluators(["--success", "1.5"])
