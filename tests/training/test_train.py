"""A real training on the CPU, from the command line to the ledger."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from pathlib import Path

import pytest

from ledger_lab.ledger import (
    FIGURES,
    CheckpointSaved,
    PanelResult,
    Status,
    Telemetry,
    read_ledger,
)
from ledger_lab.ledger.meters.phases import TRAINING_PHASES
from ledger_lab.panels import find_panels
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.training.final_report import show_final_report
from ledger_lab.units import percent, usd
from tests.conftest import MISSING_WINGS, SHORT, one_run_dir, script

ENGINE = "newton/mjwarp" if "mujoco_cpu" in MISSING_WINGS else "newton/mujoco"


def report(log_root: Path) -> dict[str, object]:
    finished = script("report", "--log_root", log_root, "--json", "-")
    assert finished.returncode == 0, finished.stderr
    (run,) = json.loads(finished.stdout)["runs"]
    return run


def test_the_ledger_describes_the_whole_run(trained: Path) -> None:
    (run,) = read_ledger(trained).runs
    (attempt,) = run.attempts
    assert attempt.status is Status.COMPLETED
    assert [type(row).__name__ for row in attempt.ranks[0].rows[:3]] == ["RunDeclared", "AttemptStarted", "PhaseWindow"]
    assert attempt.supervision is not None
    supervised = [type(row).__name__ for row in attempt.supervision.rows]
    assert supervised == ["SupervisionStarted", "AttemptEnded", "ShutdownEnded"]
    (telemetry,) = attempt.telemetries
    assert telemetry.path.name == "journal-1-telemetry.jsonl"
    assert [type(row).__name__ for row in telemetry.rows[:2]] == ["TelemetryStarted", "Telemetry"]
    assert len(telemetry.of(Telemetry)) >= 5
    assert [row.iteration for row in attempt.of(CheckpointSaved)] == [1, 2, 3]
    assert [row.env_steps for row in attempt.of(CheckpointSaved)] == [64 * 32 * n for n in (1, 2, 3)]
    lines = attempt.of(CheckpointSaved)
    for saved in lines:
        windows = [row for row in attempt.windows if row.iteration is None or row.iteration <= saved.iteration]
        spent_ns = sum((Counter(row.phase_ns) for row in windows if row.wall_ns <= saved.wall_ns), Counter())
        assert saved.train_ns == sum(spent_ns[phase] for phase in TRAINING_PHASES) > 0
        assert saved.evaluate_ns == spent_ns["evaluate"] > 0
        assert saved.endings is not None and set(saved.endings) <= {"time_out", "cart_out_of_bounds"}
    peaks = [saved.peak_host_memory_bytes or 0 for saved in lines]
    assert peaks == sorted(peaks) and peaks[0] > 10**8 and lines[-1].peak_gpu_memory_bytes is None
    assert 0 < sum(sum((saved.endings or {}).values()) for saved in lines) < 64 * 32 * 3
    assert "shutdown" in attempt.windows[-1].phase_ns, "closing the simulation is neither training nor scoring"
    last = attempt.windows[3].figures
    assert set(last) <= set(FIGURES)
    assert {"value_loss", "policy_loss", "entropy", "action_std", "kl", "grad_norm", "learning_rate"} <= set(last)
    judged = attempt.of(PanelResult)
    assert [row.checkpoint for row in judged] == ["model_0.pt", "model_2.pt"], "the newest whenever a panel is over"
    assert {(row.purpose, row.outcomes.episodes, row.needed) for row in judged} == {("check", 256, 224)}
    assert all((run.directory / saved.path).is_file() for saved in run.checkpoints)
    assert (run.declared.task, run.declared.seed, run.declared.physics) == ("LedgerLab-Cartpole", 42, ENGINE)
    assert script("verify_ledger", "--log_root", trained).returncode == 0


def test_phases_sum_to_wall_clock_and_little_is_unattributed(trained: Path) -> None:
    run = report(trained)
    phases = run["phases"]
    assert sum(phases.values()) == pytest.approx(run["wall_s"], abs=1e-3)
    assert {"startup", "simulate", "manage", "infer", "returns", "learn", "evaluate", "log", "checkpoint"} <= set(
        phases
    )
    assert phases.get("unattributed", 0) < 0.05 * run["wall_s"]


def test_the_report_shows_speed_cost_and_success(trained: Path) -> None:
    run = report(trained)
    assert run["env_steps"] == 64 * 32 * 3
    assert run["env_steps_per_s"] == pytest.approx(run["env_steps"] / run["train_s"])
    assert run["fps_step"] > run["fps_step_inference"] > run["env_steps_per_s"] > 0
    assert run["wall_s"] > run["train_s"] + run["evaluate_s"] > 0
    assert run["billable_usd"] == pytest.approx(math.ceil(run["wall_s"]) / 1000), "$3.60 an hour, in whole seconds"
    assert (run["wall_to_target_s"], run["target_reached"], run["status"]) == (None, False, "completed")
    assert (run["peak_gpu_memory_gb"], run["peak_host_memory_gb"] > 0.1) == (None, True)
    room = run["room"]
    assert (room["constraint_capacity"], room["contact_capacity_per_env"], room["contacts_per_env"]) == (5, 3.0, 0.0)
    assert 1 <= room["constraints"] <= 2, "some carts come to an end of their rail"
    assert [c["exactness"] for c in run["checkpoints"]] == ["bitwise", None, "bitwise"]
    assert run["heldout_successes"] == sum(run["checkpoints"][-1]["outcomes"])
    text = (trained / "stdout.txt").read_text()
    assert run["run_id"] in text and "✗ TARGET NOT REACHED" in text
    assert "[INFO]" not in text


def test_a_training_ends_with_the_report_of_the_ledger_to_the_cent(trained: Path) -> None:
    (run,) = read_ledger(trained).runs
    printed = io.StringIO()
    show_final_report(run, make_console(printed))
    text = (trained / "stdout.txt").read_text()
    assert text.endswith(printed.getvalue()), "the rows of the end are written before the report is made"
    cost = usd(summarize_run(run).billable_usd)
    assert cost in text and cost in script("report", "--log_root", trained).stdout
    checks = [row for row in run.results if row.purpose == "check"]
    best = max(row.outcomes.successes for row in checks)
    assert f"the best check is {percent(best / 256)} of 256 episodes by model_" in text


def test_output_of_libraries_goes_to_the_log(trained: Path) -> None:
    assert "[INFO]" in (one_run_dir(trained) / "console.log").read_text(errors="replace")


def test_tensorboard_files_and_configs_are_in_the_run_directory(trained: Path) -> None:
    run_dir = one_run_dir(trained)
    assert list(run_dir.glob("events.out.tfevents*"))
    assert (run_dir / "params" / "env.yaml").is_file() and (run_dir / "params" / "agent.yaml").is_file()


def test_held_out_slots_do_not_change_the_learner(trained: Path, unscored: Path) -> None:
    import torch

    assert report(unscored)["heldout_success"] is None
    for name in ("model_0.pt", "model_1.pt", "model_2.pt"):
        first, second = (torch.load(one_run_dir(root) / name, weights_only=True) for root in (trained, unscored))
        for part in ("actor_state_dict", "critic_state_dict"):
            assert first[part].keys() == second[part].keys()
            assert all(torch.equal(value, second[part][key]) for key, value in first[part].items())
    scalars = [sorted(tensorboard_scalars(one_run_dir(root)).items()) for root in (trained, unscored)]
    assert scalars[0] == scalars[1] and len(scalars[0]) > 10


def tensorboard_scalars(run_dir: Path) -> dict[str, list[float]]:
    """Return everything that was logged, but for how long things took."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(run_dir), size_guidance={"scalars": 0})
    accumulator.Reload()
    tags = [tag for tag in accumulator.Tags()["scalars"] if not tag.startswith("Perf/") and "time" not in tag.lower()]
    return {tag: [event.value for event in accumulator.Scalars(tag)] for tag in tags}


def test_a_policy_is_proven_on_fresh_seeds_and_ends_the_training(tmp_path: Path) -> None:
    easy = tmp_path / "easy.toml"
    text = find_panels()["cartpole_v1"].read_text()
    for old, new in (("tolerance_rad = 0.2", "tolerance_rad = 7.0"), ("_length_s = 5.0", "_length_s = 2.0")):
        assert old in text
        text = text.replace(old, new)
    easy.write_text(text.replace("count = 256", "count = 64"))
    finished = script("train", "--num_envs", "64", "--max_iterations", "500", "--device", "cpu", "--seed", "42",
                      "--panel", easy, "--target", "0.1", "--eval_every", "5", "--log_root", tmp_path)  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (run,) = read_ledger(tmp_path).runs
    assert run.attempts[0].status is Status.TARGET_REACHED
    checked, proven = run.results[-2:]
    assert (checked.purpose, proven.purpose) == ("check", "proof")
    assert checked.checkpoint_sha256 == proven.checkpoint_sha256
    assert set(checked.outcomes.seed).isdisjoint(proven.outcomes.seed)
    assert proven.outcomes.successes >= proven.needed > checked.needed
    assert max(window.iteration or 0 for window in run.attempts[0].windows) < 500
    assert report(tmp_path)["wall_to_target_s"] == pytest.approx(proven.wall_ns / 1e9)


def test_ovphysx_trains_without_a_gpu(tmp_path: Path) -> None:
    finished = script("train", *SHORT, "physics=ovphysx", "--log_root", tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (run,) = read_ledger(tmp_path).runs
    assert run.declared.physics == "ovphysx"
    assert {row.exactness for row in run.results} == {"statistical"}
