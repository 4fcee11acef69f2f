"""A training with SAC or TD3 goes from the first step to an exported policy, and through an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.ledger import PhaseWindow, Run, StateRestored, Status, read_ledger
from tests.conftest import fake, one_run_dir, script

SHORT = ("--device", "cpu", "--num_envs", "64", "--max_iterations", "3")
FIGURES = {"sac": {"entropy", "action_std"}, "td3": set()}
"""Figures of an update that only one of the algorithms has."""

type Learner = tuple[str, str]
"""Library and algorithm, by their names on the command line."""


@pytest.fixture(
    scope="module",
    params=[
        ("skrl", "sac"),
        pytest.param(("skrl", "td3"), marks=pytest.mark.slow),
        pytest.param(("rl_games", "sac"), marks=pytest.mark.slow),
    ],
    ids="-".join,
)
def learner(request: pytest.FixtureRequest) -> Learner:
    """What trains."""
    found: Learner = request.param
    return found


@pytest.fixture(scope="module")
def root(learner: Learner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root of a ledger that holds a training in two attempts."""
    library, algorithm = learner
    log_root = tmp_path_factory.mktemp(algorithm)
    chosen = ("--algorithm", algorithm, *(() if library == "skrl" else ("--rl_library", library)))
    asked = fake("interrupted", *chosen, *SHORT, "--log_root", log_root, "2:SIGTERM")
    assert asked.returncode == 75, asked.stdout + asked.stderr
    assert "replay memory 1024 steps × 64 = 65536 transitions · 2 updates of 512" in asked.stdout
    assert "each transition is used 16 times" in asked.stdout
    resumed = script("train", "--resume", one_run_dir(log_root), "--log_root", log_root)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "it is empty again after the interruption, and refills" in resumed.stdout
    return log_root


def run_of(log_root: Path) -> Run:
    """Return the one run."""
    (run,) = read_ledger(log_root).runs
    return run


def test_a_resumed_training_says_that_its_replay_memory_refills(learner: Learner, root: Path) -> None:
    (library, algorithm), run = learner, run_of(root)
    assert (run.declared.rl_library, run.declared.agent) == (library, f"{library}_{algorithm}_cfg_entry_point")
    assert run.attempts[-1].status is Status.COMPLETED
    (restored,) = run.attempts[1].of(StateRestored)
    assert (restored.iteration, restored.exactness) == (2, "statistical")
    assert restored.reasons == ["the replay memory is not saved, and refills"]
    phases = {name for attempt in run.attempts for row in attempt.of(PhaseWindow) for name in row.phase_ns}
    assert {"replay_write", "replay_sample", "infer", "learn"} <= phases
    windows = [row for attempt in run.attempts for row in attempt.of(PhaseWindow) if row.figures]
    assert [row.iteration for row in windows] == [1, 2, 3]
    assert all({"value_loss", "policy_loss", *FIGURES[algorithm]} <= set(row.figures) for row in windows)


@pytest.mark.slow
def test_its_checkpoints_are_scored_alike_and_exported(learner: Learner, root: Path, tmp_path: Path) -> None:
    library, algorithm = learner
    judged = {row.checkpoint: row.outcomes for row in run_of(root).results if row.purpose == "screening"}
    scored = script("evaluate", one_run_dir(root), "--log_root", root, "--device", "cpu")
    assert scored.returncode == 0, scored.stdout + scored.stderr
    run = run_of(root)
    again = {row.checkpoint: row.outcomes for row in run.results if row.purpose == "evaluation"}
    assert judged and all(again[name] == outcomes for name, outcomes in judged.items()), "bit for bit"
    checkpoint = run.directory / run.checkpoints[-1].path
    exported = script("export_policy", checkpoint, "--device", "cpu", "--to", tmp_path)
    assert exported.returncode == 0, exported.stdout + exported.stderr
    assert "policy.pt: largest error " in exported.stdout and "policy.onnx: largest error " in exported.stdout
    begun = script("train", "--rl_library", library, "--checkpoint", checkpoint, "--log_root", root, "--device", "cpu")
    assert begun.returncode == 2
    complaint = (
        f"was trained by {algorithm}, and another algorithm cannot use its networks: use --algorithm {algorithm}"
    )
    assert complaint in begun.stderr
