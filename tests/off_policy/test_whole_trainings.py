"""A training with SAC or TD3 goes from the first step to an exported policy, and through an interruption."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ledger_lab.ledger import (
    STATE_FILE,
    GradientNorms,
    LearnerHashed,
    PhaseWindow,
    Run,
    StateRestored,
    StateSaved,
    Status,
    read_ledger,
)
from ledger_lab.off_policy.replay_plan import bytes_per_transition
from ledger_lab.reports import summarize_run
from tests.conftest import ROOT, fake, one_run_dir, script

SHORT = ("--device", "cpu", "--num_envs", "64", "--seed", "42", "--max_iterations", "3")
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


def chosen(learner: Learner) -> tuple[str, ...]:
    """Return the flags that choose a learner."""
    library, algorithm = learner
    return ("--algorithm", algorithm, *(() if library == "skrl" else ("--rl_library", library)))


@pytest.fixture(scope="module")
def root(learner: Learner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root of a ledger that holds a training in two attempts."""
    log_root = tmp_path_factory.mktemp("refills")
    asked = fake("interrupted", *chosen(learner), *SHORT, "--log_root", log_root, "2:SIGTERM")
    assert asked.returncode == 75, asked.stdout + asked.stderr
    assert "replay memory 1024 steps × 64 = 65536 transitions · 2 updates of 512" in asked.stdout
    assert "each transition is used 16 times" in asked.stdout
    resumed = script("train", "--resume", one_run_dir(log_root), "--log_root", log_root)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "not identical to an uninterrupted one: the replay memory is not saved, and refills" in resumed.stdout
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
    assert restored.iteration == 2
    assert restored.reasons == ["the replay memory is not saved, and refills"]
    phases = {name for attempt in run.attempts for row in attempt.of(PhaseWindow) for name in row.phase_ns}
    assert {"replay_write", "replay_sample", "infer", "learn"} <= phases
    windows = [row for attempt in run.attempts for row in attempt.of(PhaseWindow) if row.figures]
    assert [row.iteration for row in windows] == [1, 2, 3]
    assert [row.figures["replay_fill"] for row in windows] == [32 / 1024, 64 / 1024, 32 / 1024]
    assert all({"value_loss", "policy_loss", *FIGURES[algorithm]} <= set(row.figures) for row in windows)


@pytest.mark.slow
def test_the_replay_memories_of_two_processes_refill_after_an_interruption(tmp_path: Path) -> None:
    asked = ("--nproc", "2", "--algorithm", "sac", *SHORT[:-1], "4", "--log_root", str(tmp_path), "1:SIGTERM")
    program = [sys.executable, str(ROOT / "tests" / "fakes" / "interrupted.py"), *asked]
    begun = subprocess.run(program, capture_output=True, text=True, check=False)
    assert begun.returncode == 75, begun.stdout + begun.stderr
    assert "65536 transitions in each of 2 processes · 2 updates of 2 × 512 transitions per step" in begun.stdout
    assert "the replay memory of each of 2 processes takes 1.9 MB of cpu" in begun.stdout
    ended = script("train", "--resume", one_run_dir(tmp_path), "--nproc", "2", "--log_root", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    run = run_of(tmp_path)
    assert [attempt.status for attempt in run.attempts] == [Status.PREEMPTED, Status.COMPLETED]
    (restored,) = run.attempts[1].of(StateRestored)
    assert restored.reasons == ["the replay memory is not saved, and refills"]
    for attempt in run.attempts:
        first, second = ([row.sha256 for row in rank.of(LearnerHashed)] for rank in attempt.ranks)
        assert first == second and len(set(first)) == len(first) > 0
        for rank in attempt.ranks:
            assert {"replay_fill", "replay_age"} <= {name for row in rank.of(PhaseWindow) for name in row.figures}
            assert not rank.of(GradientNorms), "critics and policy have a gradient each"
    summary = summarize_run(run)
    assert summary.gradient_steps_per_env_step == 2 / (2 * 64)
    assert summary.replay_memory_gb == 64 * (1024 * bytes_per_transition(4 * 4, 1, 1) + 4 * 4) / 1e9, "of each process"


RECIPE = """version = 1
[recipe]
n_step = 3
critic_layer_norm = true
policy_layer_norm = true
replay_on_host = true
update_every = 2
"""
"""Fields of the recipe that only SKRL has."""


@pytest.mark.thorough  # test_off_policy_resuming.py saves and restores replay memories
def test_a_training_with_a_recipe_file_resumes_with_its_saved_replay_memory(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    asked = ("--algorithm", "td3", *SHORT, "--recipe", recipe, "--save_replay", "--log_root", tmp_path)
    begun = fake("interrupted", *asked, "2:SIGTERM")
    assert begun.returncode == 75, begun.stdout + begun.stderr
    assert re.search(
        r"the replay memory takes 1.\d+ MB of cpu; saved with the state, up to .* MB of disk", begun.stdout
    )
    (state,) = tmp_path.rglob(f"{STATE_FILE}*")
    assert state.stat().st_size > 10**6, "it holds the replay memory"
    ended = script("train", "--resume", one_run_dir(tmp_path), "--log_root", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "not identical" not in ended.stdout
    assert not list(tmp_path.rglob("training_state*")), "what is over needs no state"
    run = run_of(tmp_path)
    ((restored),) = run.attempts[1].of(StateRestored)
    assert (restored.iteration, restored.reasons) == (2, [])
    assert all(row.replay_bytes for attempt in run.attempts for row in attempt.of(StateSaved))
    windows = [row for attempt in run.attempts for row in attempt.of(PhaseWindow) if row.figures]
    assert [row.figures["replay_fill"] for row in windows] == [32 / 1024, 64 / 1024, 96 / 1024]
    assert "policy_loss" in windows[-1].figures


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ((), "--save_replay: ppo learns without a replay memory: leave it out, or use --algorithm sac"),
        pytest.param(
            ("--algorithm", "sac", "--nproc", "2"),
            "--save_replay: only the replay memory of a single process can be saved, and this training has 2: ",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_replay_memory_that_cannot_be_saved_is_refused(
    flags: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    refused = script("train", *SHORT, "--save_replay", *flags, "--log_root", tmp_path)
    assert refused.returncode == 2 and complaint in refused.stderr
    assert not list(tmp_path.rglob("journal-*"))


@pytest.mark.thorough
def test_its_checkpoints_are_scored_alike_and_exported(learner: Learner, root: Path, tmp_path: Path) -> None:
    library, algorithm = learner
    judged = {row.checkpoint: row.outcomes for row in run_of(root).results if row.purpose == "check"}
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
    assert f"was trained by {library} ({algorithm}), and {library} (ppo) cannot use its networks" in begun.stderr
    assert f"use --rl_library {library} --algorithm {algorithm}" in begun.stderr
