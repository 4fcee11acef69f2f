"""Real trainings in two processes on the CPU."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    GradientNorms,
    LearnerHashed,
    PanelResult,
    PhaseWindow,
    StateRestored,
    Status,
    Telemetry,
)
from ledger_lab.reports import summarize_run
from tests.conftest import ROOT, one_run_dir, script
from tests.fakes.supervised import run_of

TWO = ("--nproc", "2", "--num_envs", "32", "--device", "cpu")
HOST = socket.gethostname()


@pytest.fixture(scope="module")
def by_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root of a ledger that holds one short training in two processes, priced at $3.60 an hour and device."""
    log_root = tmp_path_factory.mktemp("by_two")
    finished = script(
        "train", *TWO, "--max_iterations", "4", "agent.save_interval=1", "agent.actor.obs_normalization=True",
        "--usd_per_hour", "3.6", "--log_root", log_root,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (log_root / "stdout.txt").write_text(finished.stdout)
    return log_root


def test_each_process_writes_a_journal_and_only_the_first_process_prints(by_two: Path) -> None:
    run = run_of(by_two)
    (attempt,) = run.attempts
    assert attempt.status is Status.COMPLETED
    assert (run.declared.world_size, run.declared.num_envs, run.declared.held_out_slots) == (2, 32, 128 + 8)
    seed = run.declared.seed
    assert run.declared.request is not None and run.declared.request["seed"] == seed, "drawn once, for both processes"
    assert [(start.rank, start.seed) for start in attempt.of(AttemptStarted)] == [(0, seed), (1, seed + 1)]
    first, second = attempt.ranks
    assert [row.iteration for row in first.of(CheckpointSaved)] == [1, 2, 3, 4]
    assert [row.env_steps for row in first.of(CheckpointSaved)] == [2 * 32 * 32 * n for n in (1, 2, 3, 4)]
    endings = [row.endings for row in first.of(CheckpointSaved)]
    assert all(found is not None for found in endings) and sum(sum((found or {}).values()) for found in endings) > 0
    assert first.of(PanelResult) and not second.of(PanelResult) and not second.of(CheckpointSaved)
    assert [row.status for row in attempt.of(AttemptEnded)] == [Status.COMPLETED] * 2
    assert [bool(journal.of(Telemetry)) for journal in attempt.telemetries] == [True] * 2
    for rank in attempt.ranks:
        windows = rank.of(PhaseWindow)
        assert sum(sum(window.phase_ns.values()) for window in windows) == windows[-1].wall_ns
        assert rank.windows.phase_ns["synchronize"] > 0
    assert script("verify_ledger", "--log_root", by_two).returncode == 0
    text = (by_two / "stdout.txt").read_text()
    hashes = [{row.iteration: row.sha256 for row in rank.of(LearnerHashed)} for rank in attempt.ranks]
    assert hashes[0] == hashes[1] and list(hashes[0]) == [1, 2] and len(set(hashes[0].values())) == 2
    assert text.count("starting the simulation") == 1
    assert "2 processes × 32 environments" in text


def test_each_process_records_the_norms_of_its_gradients(by_two: Path) -> None:
    run = run_of(by_two)
    first, second = (rank.of(GradientNorms) for rank in run.attempts[0].ranks)
    assert [row.iteration for row in first] == [row.iteration for row in second] == [1, 2, 3, 4]
    steps = run.declared.epochs * run.declared.minibatches
    for own, other in zip(first, second, strict=True):
        assert (own.steps, own.average_square) == (other.steps, other.average_square) == (steps, own.average_square)
        assert own.own_square != other.own_square
        assert (own.own_square + other.own_square) / 2 >= own.average_square > 0, "the average has less noise"
    parts = summarize_run(run).gradient_noise
    assert [part.steps for part in parts] == [steps, 2 * steps, steps]
    assert all(part.scale is None or part.scale > 0 for part in parts)


def test_the_shares_of_a_panel_have_the_outcomes_of_a_single_process(by_two: Path) -> None:
    judged = {row.checkpoint: row for row in run_of(by_two).results}
    assert {(row.purpose, row.outcomes.episodes) for row in judged.values()} == {("check", 256)}
    run_dir = one_run_dir(by_two)
    paths = [run_dir / name for name in judged]
    assert script("evaluate", *paths, "--device", "cpu", "--log_root", by_two).returncode == 0
    alone = {row.checkpoint: row for row in run_of(by_two).results if row.purpose == "evaluation"}
    assert alone.keys() == judged.keys()
    for name, row in judged.items():
        assert alone[name].checkpoint_sha256 == row.checkpoint_sha256
        assert alone[name].panel_id == row.panel_id
        assert alone[name].outcomes == row.outcomes, "to the last bit, and so is the verdict"


def test_the_report_shows_waiting_ranks_and_bills_the_machine_once(by_two: Path) -> None:
    (run,) = json.loads(script("report", "--log_root", by_two, "--json", "-").stdout)["runs"]
    assert (run["num_envs"], run["world_size"], run["env_steps"]) == (32, 2, 2 * 32 * 32 * 4)
    seeds = [(rank["rank"], rank["host"], rank["seed"] - run["seed"]) for rank in run["ranks"]]
    assert seeds == [(0, HOST, 0), (1, HOST, 1)]
    assert all(0 < rank["synchronize_share"] < 1 for rank in run["ranks"])
    assert run["billable_usd"] == pytest.approx(math.ceil(run["wall_s"]) / 1000), "each second that has begun, once"
    text = script("report", run["run_id"], "--log_root", by_two).stdout
    assert "2 × 32" in text and "2; synchronize takes " in text
    last = run["ranks"][1]["learner"][-1]["sha256"][:12]
    said = f"equal to the last bit whenever compared (2 ×), after iteration 2 with SHA-256 {last}…"
    assert said in " ".join(text.split()), "lines are wrapped"


@pytest.mark.slow
def test_a_signal_to_one_process_ends_all_processes_and_the_run_resumes(by_two: Path, tmp_path: Path) -> None:
    request = [*TWO, "--max_iterations", "4", "agent.save_interval=1", "agent.actor.obs_normalization=True"]
    request += ["--seed", str(run_of(by_two).declared.seed)]
    interrupted = [sys.executable, str(ROOT / "tests" / "fakes" / "interrupted.py"), *request]
    interrupted += ["--log_root", str(tmp_path), "2:SIGTERM"]
    asked = subprocess.run(interrupted, capture_output=True, text=True, check=False)
    assert asked.returncode == 75, asked.stdout + asked.stderr
    resumed = script("train", "--resume", one_run_dir(tmp_path), *TWO[:2])
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    whole, parts = run_of(by_two), run_of(tmp_path)
    assert [attempt.status for attempt in parts.attempts] == [Status.PREEMPTED, Status.COMPLETED]
    assert [len(attempt.ranks) for attempt in parts.attempts] == [2, 2]
    (restored,) = parts.attempts[1].of(StateRestored)
    assert restored.iteration in (2, 3), "the launcher passes the signal on, which takes its time"
    assert restored.reasons == []
    saved, again = ({row.path: row.sha256 for row in run.checkpoints} for run in (whole, parts))
    assert saved.keys() == again.keys() and saved["model_0.pt"] == again["model_0.pt"]
    compared = [row.iteration for row in parts.attempts[1].ranks[1].of(LearnerHashed)]
    assert compared == [*range(restored.iteration + 1, 5)], "the first iterations of the attempt"
    assert script("verify_ledger", "--log_root", tmp_path).returncode == 0
    refused = script("train", "--resume", one_run_dir(tmp_path))
    assert refused.returncode == 2 and "has ended: completed" in refused.stderr


@pytest.mark.slow
def test_processes_with_different_learners_are_detected(tmp_path: Path) -> None:
    faulty = str(ROOT / "tests" / "fakes" / "unequal_ranks.py")
    arguments = [*TWO, "--max_iterations", "4", "--no_eval", "--log_root", str(tmp_path)]
    finished = subprocess.run([sys.executable, faulty, *arguments], capture_output=True, text=True, check=False)
    assert finished.returncode == 1, finished.stdout + finished.stderr
    (attempt,) = run_of(tmp_path).attempts
    assert attempt.ended is not None
    assert attempt.status is Status.INVALID
    assert attempt.ended.reason == (
        f"RanksDifferError: critic_state_dict.mlp.0.bias differs between rank 0 on {HOST} and rank 1 on {HOST}"
    )
    assert attempt.sums.iterations == 1, "the first update is looked at"
    assert len({row.sha256 for row in attempt.of(LearnerHashed)}) == 2
    text = script("report", run_of(tmp_path).run_id, "--log_root", tmp_path).stdout
    assert "their learners differ after iteration 1" in " ".join(text.split())
    assert attempt.ended.reason.partition(": ")[2] in finished.stdout


@pytest.mark.parametrize(
    ("arguments", "environ", "complaint"),
    [
        pytest.param(
            ["--nproc", "3", "--device", "cpu"],
            {},
            "its 256 seeds do not split over 3 processes: start 2 or 4",
            marks=pytest.mark.slow,
        ),
        (["--nproc", "2", "--task", "Nope"], {}, "unknown task 'Nope'"),
        (["--nproc", "2"], {"WORLD_SIZE": "4"}, "--nproc 2: WORLD_SIZE is 4, so a launcher has started"),
    ],
    ids=["seeds", "task", "twice"],
)
def test_processes_that_cannot_train_together_are_refused_in_one_line(
    arguments: list[str], environ: dict[str, str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    finished = script("train", *arguments, "--log_root", tmp_path / "logs")
    assert finished.returncode == 2, finished.stderr
    assert finished.stdout == ""
    assert complaint in finished.stderr
    assert finished.stderr.startswith("error: ") and len(finished.stderr.strip().splitlines()) == 1, finished.stderr
    assert not (tmp_path / "logs").exists()
