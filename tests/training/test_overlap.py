"""A training whose gradient steps run beside the native physics: judged, interrupted and resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.ledger import Run, StateRestored, Status, read_ledger
from tests.conftest import fake, one_run_dir, script

SHORT = ("--algorithm", "sac", "--device", "cpu", "--num_envs", "64", "--seed", "42", "--max_iterations", "3")
OVERLAPS = (*SHORT, "--save_replay", "agent.overlap=true")


def run_of(log_root: Path) -> Run:
    """Return the one run."""
    (run,) = read_ledger(log_root).runs
    return run


@pytest.mark.thorough  # tests/training/runners/test_overlap.py resumes a made-up task
def test_an_interrupted_training_goes_on(tmp_path: Path) -> None:
    whole_root, parts_root = tmp_path / "whole", tmp_path / "parts"
    uninterrupted = script("train", *OVERLAPS, "--log_root", whole_root)
    assert uninterrupted.returncode == 0, uninterrupted.stdout + uninterrupted.stderr
    begun = fake("interrupted", *OVERLAPS, "--log_root", parts_root, "2:SIGTERM")
    assert begun.returncode == 75, begun.stdout + begun.stderr
    ended = script("train", "--resume", one_run_dir(parts_root), "--log_root", parts_root)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    whole, parts = run_of(whole_root), run_of(parts_root)
    assert whole.declared.physics == "newton/mujoco" and whole.attempts[-1].status is Status.COMPLETED
    (restored,) = [row for attempt in parts.attempts for row in attempt.of(StateRestored)]
    assert (restored.iteration, restored.exactness, restored.reasons) == (2, "statistical", [])
    figures = [
        {window.iteration: {**window.figures, "overlapped_s": 0.0} for _, window in run.windows if window.figures}
        for run in (whole, parts)
    ]
    assert figures[0][1] == figures[1][1] and len(figures[0]) == len(figures[1]) == 3
    assert all(each["policy_lag_steps"] == 1.0 and each["policy_lag_updates"] == 2.0 for each in figures[0].values())
    assert parts.results


@pytest.mark.parametrize(
    "flags",
    [("--algorithm", "sac", "--rl_library", "rl_games"), ("--rl_library", "skrl"), ("--rl_library", "rsl_rl")],
    ids=["sac of rl_games", "ppo of skrl", "ppo of rsl_rl"],
)
def test_other_learners_refuse_it(flags: tuple[str, ...], tmp_path: Path) -> None:
    refused = script("train", *flags, "--device", "cpu", "agent.overlap=true", "--log_root", tmp_path)
    assert refused.returncode == 2
    (line,) = refused.stderr.strip().splitlines()
    assert "agent.overlap" in line and "SAC and TD3 of SKRL" in line
    assert not list(tmp_path.rglob("journal-*"))
