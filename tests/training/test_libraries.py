"""Every library writes the same rows. Tests of RSL-RL with the fixture ``trained`` are not repeated here."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.ledger import (
    FIGURES,
    CheckpointSaved,
    GradientNorms,
    PanelResult,
    PhaseWindow,
    StateRestored,
    Status,
)
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.training.runners.adapter import load_adapter
from tests.conftest import fake, one_run_dir, script
from tests.fakes.supervised import run_of


def short(library: str) -> list[str]:
    """Return the command line of a short training."""
    arguments = ["--rl_library", library, "--agent", f"{library}_cfg_entry_point", "--device", "cpu"]
    epochs = load_adapter(library).dialect.overrides["epochs"]
    return [*arguments, "--num_envs", "64", "--seed", "42", "--max_iterations", "3", f"{epochs}=2"]


@pytest.fixture(scope="module", params=[name for name in LIBRARIES if name != "rsl_rl"])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root of a ledger that holds a short training by a library."""
    log_root = tmp_path_factory.mktemp(request.param)
    finished = script("train", *short(request.param), "--log_root", log_root)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "batch 64 × 32 = 2048 steps in 4 minibatches, 2 epochs: effective batch 4096" in finished.stdout
    return log_root


def require_scored_alike(log_root: Path) -> None:
    """Score all checkpoints of the one run again, each of which must get the episodes that it got in training."""
    judged = {row.checkpoint: row.outcomes for row in run_of(log_root).results if row.purpose == "check"}
    scored = script("evaluate", one_run_dir(log_root), "--log_root", log_root, "--device", "cpu")
    assert scored.returncode == 0, scored.stdout + scored.stderr
    run = run_of(log_root)
    again = {row.checkpoint: row.outcomes for row in run.results if row.purpose == "evaluation"}
    assert set(again) == {row.path for row in run.checkpoints}
    assert judged and all(again[name] == outcomes for name, outcomes in judged.items()), "bit for bit"


def test_each_library_trains_and_is_judged(root: Path) -> None:
    run = run_of(root)
    (attempt,) = run.attempts
    library = run.declared.rl_library
    declared = run.declared
    assert attempt.status is Status.COMPLETED
    assert (declared.rl_library, declared.agent) == (library, f"{library}_cfg_entry_point")
    assert (declared.max_iterations, declared.horizon, declared.epochs, declared.minibatches) == (3, 32, 2, 4)
    windows = [row for row in attempt.of(PhaseWindow) if row.iteration in (1, 2, 3)]
    spent = {phase for row in windows for phase in row.phase_ns}
    assert {"simulate", "manage", "infer", "returns", "learn", "evaluate", "log"} <= spent
    assert {"value_loss", "policy_loss", "entropy", "action_std", "kl", "grad_norm"} <= set(windows[-1].figures)
    assert set(windows[-1].figures) <= set(FIGURES)
    saved = {row.path: row for row in attempt.of(CheckpointSaved)}
    assert max(row.iteration for row in saved.values()) == 3
    judged = attempt.of(PanelResult)
    assert [saved[row.checkpoint].iteration for row in judged] == [1, 3]
    require_scored_alike(root)


@pytest.mark.slow
def test_the_policy_of_each_library_is_exported_and_played(root: Path, tmp_path: Path) -> None:
    run = run_of(root)
    checkpoint = run.directory / run.checkpoints[-1].path
    exported = script("export_policy", checkpoint, "--device", "cpu", "--to", tmp_path)
    assert exported.returncode == 0, exported.stdout + exported.stderr
    assert "policy.pt: largest error " in exported.stdout and "policy.onnx: largest error " in exported.stdout
    played = script("play", checkpoint, "--device", "cpu", "--video", "--video_length", "5", "--num_envs", "2")
    assert played.returncode == 0, played.stdout + played.stderr
    assert list(root.rglob("*.mp4"))


@pytest.mark.slow
def test_a_training_of_each_library_is_resumed(root: Path, tmp_path: Path) -> None:
    whole = run_of(root)
    asked = fake("interrupted", *short(whole.declared.rl_library), "--log_root", tmp_path, "2:SIGTERM")
    assert asked.returncode == 75, asked.stdout + asked.stderr
    resumed = script("train", "--resume", one_run_dir(tmp_path), "--log_root", tmp_path)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    parts = run_of(tmp_path)
    (restored,) = parts.attempts[1].of(StateRestored)
    assert (restored.iteration, restored.reasons) == (2, [])
    assert {row.path for row in whole.checkpoints} <= {row.path for row in parts.checkpoints}
    assert parts.results
    figures = [{w.iteration: w.figures for _, w in run.windows if w.figures} for run in (whole, parts)]
    assert figures[0][1] == figures[1][1] and len(figures[1]) == 3


@pytest.mark.slow
def test_two_processes_judge_like_one_process(root: Path, tmp_path: Path) -> None:
    request = short(run_of(root).declared.rl_library)
    finished = script("train", "--nproc", "2", *request, "--log_root", tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    run = run_of(tmp_path)
    assert run.declared.world_size == 2
    assert [row.steps for row in run.attempts[0].ranks[1].of(GradientNorms)] == [2 * 4] * 3
    require_scored_alike(tmp_path)
