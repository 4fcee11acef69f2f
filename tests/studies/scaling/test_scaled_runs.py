"""Runs of a ledger as points of scaling studies: where their time went, and what must be equal between them."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import pytest

from ledger_lab.ledger import AttemptStarted, Journal, StateRestored, Status, read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.columns import TableCell, shown_table
from ledger_lab.studies.scaling.points import ScaledRun, point_of, scaled_run, scaled_runs
from ledger_lab.studies.scaling.view import RUNS
from tests.fakes.ledgers import SECOND, declared, result, window, write_run
from tests.fakes.scaled import write_scaled


def only(root: Path) -> ScaledRun:
    (run,) = read_ledger(root).runs
    return scaled_run(run, summarize_run(run))


def test_the_time_to_the_target_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    write_scaled(tmp_path, "aa", 2, 64, rate=1000.0, iterations=5, waits=(0.1, 0.3))
    run = only(tmp_path)
    steps = 5 * 2 * 64 * 16
    assert (run.reached, run.steps_to_target, run.batch, run.limit_steps) == (True, steps, 2048, 2 * steps)
    identity = run.identity
    assert identity.start_up_s == 2.0
    assert identity.training_s == pytest.approx(steps / 1000 + 0.01), "10 ms before the target are not scoring"
    assert identity.scoring_s == pytest.approx(steps / 10_000 + 0.04)
    assert (identity.interruptions_s, identity.residual_s) == (0.0, pytest.approx(0.0, abs=1e-9))
    assert run.time_to_target_s == identity.time_s == summarize_run(read_ledger(tmp_path).runs[0]).wall_to_target_s
    assert run.summary.wall_s == pytest.approx(identity.time_s + 1.04), "the run went on for its shutdown"
    assert run.cost_to_target_usd == pytest.approx(identity.time_s / 1000, rel=1e-3)


def test_a_run_that_misses_its_target_counts_up_to_its_end(tmp_path: Path) -> None:
    write_scaled(tmp_path, "aa", 1, 64, rate=1000.0, iterations=5, reached=False)
    run = only(tmp_path)
    assert (run.reached, run.steps_to_target, run.time_to_target_s, run.cost_to_target_usd) == (False, None, None, None)
    assert run.identity.steps == run.limit_steps == 5 * 64 * 16
    assert (run.identity.time_s, run.identity.interruptions_s) == (run.summary.wall_s, 1.0)
    assert run.identity.residual_s == pytest.approx(0.0, abs=1e-9)


def test_a_run_that_ended_early_is_censored_where_it_ended(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(), max_iterations=100)  # completed says so
    run = only(tmp_path)
    assert (run.summary.env_steps, run.limit_steps) == (40, 4000)
    write_run(tmp_path, "bb", scores=(), max_iterations=100, status=None)
    lost = [run for run in read_ledger(tmp_path).runs if run.run_id == "bb"]
    assert scaled_runs(lost, [*map(summarize_run, lost)])[0].limit_steps == 40


def test_a_training_that_was_interrupted_and_repeated_counts_once(tmp_path: Path) -> None:
    same = {"cohort": "c", "seed": 1}
    write_run(tmp_path, "aa", scores=(), status=Status.PREEMPTED, **same)
    write_run(tmp_path, "bb", scores=(5, 10), proof=10, status=Status.TARGET_REACHED, **same)
    write_run(tmp_path, "dd", scores=(), status=Status.PREEMPTED, cohort="c", seed=2)
    runs = read_ledger(tmp_path).runs
    found = scaled_runs(runs, [*map(summarize_run, runs)])
    assert {run.run_id: run.repeated for run in found} == {"aa": True, "bb": False, "dd": False}
    assert {run.run_id: run.interrupted for run in found} == {"aa": True, "bb": False, "dd": True}
    alone, point = point_of(found[2:]), point_of(found[:2])
    assert (alone.reached, alone.counted) == (0, 0), "nobody knows whether it would have reached the target"
    assert (point.reached, point.counted, point.time_to_target_s) == (1, 1, found[1].time_to_target_s)


def test_time_without_rows_is_told(tmp_path: Path) -> None:
    write_scaled(tmp_path, "aa", 1, 64, rate=1000.0, iterations=5, ends=False)  # killed after the row of the target
    run = only(tmp_path)
    assert run.identity.residual_s == pytest.approx(0.05)
    (cells,) = shown_table(RUNS, [run])[1]
    assert cells[-1] == TableCell("0.050 s", style="bad")


def test_what_a_later_attempt_did_again_is_an_interruption(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(5, 6), status=None, state=True)
    restored = StateRestored(
        sha256=hashlib.sha256(b"a state").hexdigest(), attempt=1, saved_wall_ns=5 * SECOND, iteration=1, env_steps=40,
        reasons=[], wall_ns=2 * SECOND,
    )  # fmt: skip
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        host = socket.gethostname()
        journal.append(AttemptStarted(run_id="aa", attempt=2, rank=0, pid=2**22 + 1, host=host, wall_ns=1))
        journal.append(window(None, 0, {"restart": 2 * SECOND}, 2 * SECOND))
        journal.append(restored)
        journal.append(window(2, 80, {"learn": 3 * SECOND}, 5 * SECOND))
        journal.append(window(None, 80, {"evaluate": 4 * SECOND}, 9 * SECOND))
        journal.append(result("aa", "model_2.pt", 9, "p1-fresh", purpose="proof"))
    run = only(tmp_path)
    assert run.identity.time_s == 18.0
    assert (run.identity.steps, run.identity.training_s) == (80, 6.0), "an iteration of 3 s was trained twice"
    assert run.identity.interruptions_s == pytest.approx(2 + 4)
    assert run.identity.residual_s == pytest.approx(0.0, abs=1e-9)


def test_a_setting_holds_what_the_user_changed_and_not_what_follows_from_the_size(tmp_path: Path) -> None:
    changed = ["env.scene.num_envs=64", "physics=newton_mjwarp", "agent.algorithm.gamma=0.9"]
    request = {"overrides": changed, "scale_lr": "sqrt", "keep_minibatch_size": True, "num_envs": 64}
    derived = [*changed, "agent.algorithm.learning_rate=0.0014"]
    write_scaled(tmp_path, "aa", 1, 64, rate=1000.0, iterations=5, overrides=derived, request=request, eval_every=2)
    assert only(tmp_path).setting.treatment == (
        "agent.algorithm.gamma=0.9 --scale_lr sqrt --keep_minibatch_size --eval_every 2"
    )
    write_scaled(tmp_path / "old", "bb", 1, 64, rate=1000.0, iterations=5, overrides=derived, machines=None)
    old = only(tmp_path / "old")
    assert old.setting.treatment == "agent.algorithm.gamma=0.9 agent.algorithm.learning_rate=0.0014"
    assert old.machines == 1, "a single process has a single machine"


def test_runs_without_the_mirrored_samples_of_their_task_are_a_setting_of_their_own(tmp_path: Path) -> None:
    for run_id, symmetry in (("aa", True), ("bb", False), ("cc", None)):
        root = tmp_path / run_id
        write_scaled(root, run_id, 1, 64, rate=9e2, iterations=5, task="LedgerLab-Velocity-Flat-Go2", symmetry=symmetry)
        assert only(root).setting.treatment == ("" if symmetry else "--no_symmetry")
    write_scaled(tmp_path / "dd", "dd", 1, 64, rate=9e2, iterations=5, task="LedgerLab-Cartpole", symmetry=False)
    assert only(tmp_path / "dd").setting.treatment == "", "nothing of it can be mirrored"


def test_a_run_that_never_began_is_no_point(tmp_path: Path) -> None:
    """It took no time, and tells nothing of its size."""
    write_scaled(tmp_path, "aa", 1, 64, rate=1000.0, iterations=5)
    run_dir = tmp_path / "rsl_rl" / "e" / "bb"
    run_dir.mkdir()
    with Journal(run_dir / "journal-1-0.jsonl") as journal:
        journal.append(declared("bb", num_envs=64))
    runs = read_ledger(tmp_path).runs
    assert len(runs) == 2
    assert [each.run_id for each in scaled_runs(runs, [summarize_run(run) for run in runs])] == ["aa"]
