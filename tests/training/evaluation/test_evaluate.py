"""Scores of checkpoints: reproducible, per cell, in other simulations, and in comparison."""

from __future__ import annotations

import dataclasses
import math
import shutil
from pathlib import Path

import pytest

from ledger_lab.ledger import (
    CapacityUsed,
    EvaluationEnded,
    EvaluationStarted,
    Outcomes,
    PanelResult,
    ShutdownEnded,
    Status,
    Telemetry,
    TelemetryStarted,
    find_journals,
    read_journal,
    read_ledger,
)
from ledger_lab.ledger.content import JournalContent
from ledger_lab.ledger.runs import without_telemetry
from ledger_lab.panels import compare_paired, find_panels, wilson_interval
from ledger_lab.panels.panel import comparison_seeds
from ledger_lab.reports import summarize_run
from tests.conftest import one_run_dir, script

CELLS = """
[[cells]]
name = "nominal"

[[cells]]
name = "late motor"
action_delay = { steps = [2, 4] }
"""
CROWDED = """
[[cells]]
name = "rusty"
joint_friction = { add = 0.1 }
"""


@pytest.fixture
def copy_of_run(trained: Path, tmp_path: Path) -> Path:
    """Root of a ledger that a test may spoil."""
    shutil.copytree(trained, tmp_path / "logs")
    return tmp_path / "logs"


def small_panel(folder: Path, cells: str = "", seeds: int = 24, length_s: float = 5.0) -> Path:
    """Write a panel that the run didn't declare: surviving is enough, which beginners do now and then."""
    text = find_panels()["cartpole_v1"].read_text().replace("tolerance_rad = 0.2", "tolerance_rad = 99.0")
    path = folder / "small.toml"
    text = text.replace("episode_length_s = 5.0", f"episode_length_s = {length_s}")
    path.write_text(text.replace("first = 0\ncount = 256", f"first = 500\ncount = {seeds}") + cells)
    return path


def evaluation(root: Path) -> JournalContent:
    """Return the journal of the only evaluation; its supervisor writes others."""
    (path,) = [path for path in find_journals(root) if "evaluation" in path.name and path.name.endswith("-0.jsonl")]
    return read_journal(path)


def test_stand_alone_scores_equal_in_flight_scores_in_every_episode(copy_of_run: Path) -> None:
    run_dir = one_run_dir(copy_of_run)
    (run,) = read_ledger(copy_of_run).runs
    training = summarize_run(run)
    beside = {row.checkpoint: row for row in run.results if row.purpose == "check"}
    assert len(beside) >= 2
    finished = script("evaluate", *(run_dir / name for name in reversed(beside)), "--log_root", copy_of_run,
                      "--device", "cpu")  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    journal = evaluation(copy_of_run)
    (started,) = journal.of(EvaluationStarted)
    supervision, telemetry = (
        read_journal(Path(str(journal.path).replace("-0.jsonl", f"-{name}.jsonl")))
        for name in ("supervisor", "telemetry")
    )
    (ended,) = supervision.of(EvaluationEnded)
    assert not supervision.of(Telemetry), "telemetry can be left out of what is kept"
    assert [type(row) for row in telemetry.rows[:2]] == [TelemetryStarted, Telemetry]
    assert not without_telemetry(read_ledger(copy_of_run).journals)
    telemetry.path.unlink()
    assert [left.path for left in without_telemetry(read_ledger(copy_of_run).journals)] == [supervision.path]
    assert (started.checkpoints, started.all_checkpoints) == (list(reversed(beside)), len(beside))
    (shutdown,) = supervision.of(ShutdownEnded)
    with_evaluation = summarize_run(*read_ledger(copy_of_run).runs)
    seconds, dollars = with_evaluation.evaluation_afterwards_s, with_evaluation.evaluation_afterwards_usd
    assert (seconds, dollars) == (shutdown.wall_ns / 1e9, pytest.approx(math.ceil(shutdown.wall_ns / 1e9) / 1000))
    apart = {"evaluation_afterwards_s": None, "evaluation_afterwards_usd": None}
    assert dataclasses.replace(with_evaluation, **apart) == training
    assert ended.status is Status.COMPLETED
    alone = journal.of(PanelResult)
    assert [row.checkpoint for row in alone] == started.checkpoints
    (used,) = journal.of(CapacityUsed)
    assert (used.constraint_capacity, used.contact_capacity, used.slots) == (5, 3 * used.slots, 256 * len(beside) + 64)
    for row in alone:
        assert (row.purpose, row.needed, row.invalid, row.exactness) == ("evaluation", None, None, "bitwise")
        assert row.panel_id == run.declared.panel_id == started.panel_id
        assert row.outcomes == beside[row.checkpoint].outcomes
        low, high = wilson_interval(row.outcomes.successes, 256)
        assert f"{100 * row.outcomes.successes / 256:.1f} % [{100 * low:.1f}, {100 * high:.1f}]" in finished.stdout
    assert "target 90 %" not in finished.stdout and "“bound ≥ 90 %”" in finished.stdout


def test_other_simulations_are_cells_and_checkpoints_are_compared_by_seed(copy_of_run: Path, tmp_path: Path) -> None:
    run_dir = one_run_dir(copy_of_run)
    finished = script("evaluate", run_dir / "model_0.pt", "--versus", run_dir, "--sim", "physics=ovphysx",
                      "--panel", small_panel(tmp_path, CELLS, 12), "--log_root", copy_of_run,
                      "--device", "cpu")  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    journal = evaluation(copy_of_run)
    here, there = journal.of(EvaluationStarted)
    assert here.panel_fields["fresh_seeds"] and there.panel_fields["fresh_seeds"]
    assert here.panel_fields["physics"]["engine"] == "newton/mujoco"
    assert there.panel_fields["physics"]["engine"] == "ovphysx"
    results = journal.of(PanelResult)
    best = read_ledger(copy_of_run).runs[0].checkpoints[-1].path
    assert [(row.checkpoint, row.panel_id) for row in results] == [
        (name, started.panel_id) for started in (here, there) for name in ("model_0.pt", best)
    ]
    assert [row.exactness for row in results] == ["bitwise"] * 2 + ["statistical"] * 2
    hashes = [results[0].checkpoint_sha256, results[1].checkpoint_sha256]
    fresh = list(comparison_seeds(*hashes, 24))
    assert [row.outcomes.seed for row in results] == [fresh] * 4, "neither policy was selected on these seeds"
    assert all(row.outcomes.cell == ["nominal"] * 12 + ["late motor"] * 12 for row in results)
    text = finished.stdout
    assert "24 fresh episodes in 2 cells, the same for both checkpoints" in text
    assert "physics.engine: 'ovphysx' != 'newton/mujoco'" in text
    for first, second, where in ((0, 1, ""), (2, 3, ", with physics=ovphysx")):
        found = compare_paired(results[second].outcomes.success, results[first].outcomes.success)
        said = text[text.index(f"model_0.pt versus {here.run_id}/{best}{where}, paired by seed:") :]
        assert f"only {here.run_id}/model_0.pt succeeds in {found.only_second} of 24 episodes" in said
        assert f"only {here.run_id}/{best} succeeds in {found.only_first} of 24 episodes" in said
        assert f"p = {found.p_text} (exact McNemar test)" in said
    for name in ("model_0.pt", best):
        assert f"worst cell of {here.run_id}/{name}: " in text
        assert f"transfer of {here.run_id}/{name} to physics=ovphysx: " in text


def count(outcomes: Outcomes, cell: str) -> str:
    """Return successes of episodes in a cell, as the table shows them."""
    won = [success for success, where in zip(outcomes.success, outcomes.cell, strict=True) if where == cell]
    return f"{sum(won)}/{len(won)}"


def test_the_table_shows_cells_and_the_worst_episodes_are_recorded(copy_of_run: Path, tmp_path: Path) -> None:
    run_dir, panel = one_run_dir(copy_of_run), small_panel(tmp_path, CELLS, 4, length_s=2.0)
    finished = script("evaluate", run_dir / "model_2.pt", "--panel", panel, "--video", "2",
                      "--target", "0.2", "--log_root", copy_of_run, "--device", "cpu")  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (row,) = evaluation(copy_of_run).of(PanelResult)
    lines = finished.stdout.splitlines()
    table = lines[next(index for index, line in enumerate(lines) if line.startswith("run ")) :]
    assert "nominal" in table[1] and count(row.outcomes, "nominal") in table[1]
    assert "late motor" in table[2] and count(row.outcomes, "late motor") in table[2]
    assert "overall" in table[3] and f"{row.outcomes.successes}/8" in table[3]
    assert f"worst cell of {row.run_id}/model_2.pt: " in finished.stdout

    from ledger_lab.training.evaluation.film import worst_episodes

    videos = sorted((run_dir / "videos" / "small").iterdir())
    chosen = [index for _, index in worst_episodes([row.outcomes], 2)]
    cells, seeds = row.outcomes.cell, row.outcomes.seed
    names = [f"model_2_{cells[index].replace(' ', '_')}_{seeds[index]}.mp4" for index in chosen]
    assert [video.name for video in videos] == sorted(names)
    assert "not the scored episode" not in finished.stdout
    import imageio

    for name, index in zip(names, chosen, strict=True):
        with imageio.get_reader(run_dir / "videos" / "small" / name) as video:
            assert video.count_frames() == (1 + row.outcomes.steps[index]) // 2, "30 a second, from start to end"
            assert video.get_data(0).std() > 10, "the picture is empty"


def test_a_score_of_incomplete_physics_is_invalid(copy_of_run: Path, tmp_path: Path) -> None:
    run_dir = one_run_dir(copy_of_run)
    finished = script("evaluate", run_dir / "model_0.pt", "--panel", small_panel(tmp_path, CROWDED),
                      "--sim", "env.sim.physics.solver_cfg.njmax=1", "--log_root", copy_of_run,
                      "--device", "cpu")  # fmt: skip
    assert finished.returncode == 1, finished.stdout + finished.stderr
    sound, broken = evaluation(copy_of_run).of(PanelResult)
    assert sound.invalid is None and broken.invalid is not None
    assert "raise env.sim.physics.solver_cfg.njmax from 1 to at least" in broken.invalid
    assert f"invalid, and compared with nothing: {broken.invalid}" in finished.stdout
    assert "transfer of" not in finished.stdout
    assert script("verify_ledger", "--log_root", copy_of_run).returncode == 0


def test_worst_episodes_are_ordered_by_success_length_and_return() -> None:
    from ledger_lab.training.evaluation.film import worst_episodes

    def outcomes(success: list[bool], steps: list[int], returns: list[float | None]) -> Outcomes:
        size = len(success)
        return Outcomes(cell=["c"] * size, seed=list(range(size)), success=success, success_any=success, steps=steps,
                        episode_return=returns, ended_by=["horizon"] * size, fingerprint=["0"] * size)  # fmt: skip

    here = outcomes([True, False, False, False], [9, 9, 3, 3], [0.0, 5.0, 2.0, None])
    there = outcomes([False, True], [3, 1], [1.0, 0.0])
    assert worst_episodes([here, there], 5) == [(0, 3), (1, 0), (0, 2), (0, 1), (1, 1)]
    assert len(worst_episodes([here, there], 99)) == 6
