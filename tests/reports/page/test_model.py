"""The page's data follow from the rows, and thinned-out curves count their samples."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.ledger import (
    AttemptStarted,
    Health,
    HostSample,
    Journal,
    Outcomes,
    PhaseWindow,
    Run,
    Status,
    SupervisionStarted,
    Telemetry,
    TelemetryStarted,
    declare_cohort,
    read_ledger,
)
from ledger_lab.reports.page.episodes import SHORT, SUCCESS, collect_outcomes
from ledger_lab.reports.page.model import PageModel, build_model
from ledger_lab.reports.page.series import return_curve, telemetry_series
from ledger_lab.reports.selection import select_in
from tests.fakes.ledgers import SECOND, declared, device_sample, result, write_run


def model_of(root: Path) -> PageModel:
    return build_model(select_in(read_ledger(root)), created_at="today")


def two_attempts(root: Path, returns: int = 10) -> Run:
    """Write a run whose first attempt ended after so many seconds, with a figure and a sample each second."""
    for attempt in (1, 2):
        with Journal(root / f"journal-{attempt}-0.jsonl") as journal:
            if attempt == 1:
                journal.append(declared("aa"))
            host = socket.gethostname()
            journal.append(AttemptStarted(run_id="aa", attempt=attempt, rank=0, pid=2**22 + 1, host=host, wall_ns=0))
            for second in range(1, returns + 1):
                journal.append(
                    PhaseWindow(
                        iteration=second,
                        env_steps=40 * second,
                        phase_ns={"simulate": SECOND},
                        wall_ns=second * SECOND,
                        figures={"mean_return": float(second)} if second != 3 else {},
                        non_finite=[],
                    )
                )
            event = Health(event="kl", iteration=2, wall_ns=2 * SECOND, evidence="e", advice="a", stops=False)
            journal.append(event)
        with Journal(root / f"journal-{attempt}-supervisor.jsonl") as journal:
            journal.append(SupervisionStarted(run_id="aa", attempt=attempt, pid=2**22 + 2, host=host, wall_ns=0))
            for second in range(1, returns + 1):
                sample = device_sample("GPU-1", utilization=0.5, power_w=100.0 + second)  # fmt: skip
                of_host = HostSample(cpu_s=1.5, busiest_thread=None, memory_bytes=2 * 10**9, available_bytes=10**9)
                journal.append(Telemetry(wall_ns=second * SECOND, host=of_host, devices=[sample]))
    (run,) = read_ledger(root).runs
    return run


def test_time_runs_on_over_attempts(tmp_path: Path) -> None:
    run = two_attempts(tmp_path)
    curve = return_curve(run, 100)
    assert curve is not None
    assert curve.t == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20]
    assert [at_s for at_s, _ in model_of(tmp_path).runs[0].health_events] == [2, 12]


def test_curves_are_thinned_by_means_and_the_samples_are_counted(tmp_path: Path) -> None:
    curve = return_curve(two_attempts(tmp_path), 5)
    assert curve is not None
    assert (len(curve.y), curve.samples) == (5, 18)
    assert (curve.y[0], curve.t[0], curve.env_steps[0]) == ((1 + 2 + 4 + 5) / 4, (1 + 2 + 4 + 5) / 4, 120)


def test_telemetry_shows_what_was_measured_and_nothing_else(tmp_path: Path) -> None:
    series = {(each.owner, each.meter): each for each in telemetry_series(two_attempts(tmp_path), 4)}
    assert {meter for owner, meter in series if owner != "host"} == {"utilization", "power"}
    assert {meter for owner, meter in series if owner == "host"} == {"CPU", "memory", "memory left"}
    power = series["device 0 (GPU-1)", "power"]
    assert (power.mean, power.highest, power.samples, len(power.y)) == (105.5, 110, 20, 4)
    cpu = series["host", "CPU"]
    assert (cpu.mean, cpu.unit, cpu.samples) == (1.5, "cores", 20)


def test_telemetry_that_was_left_out_of_the_ledger_is_reported(tmp_path: Path) -> None:
    (older := tmp_path / "older").mkdir()
    two_attempts(older)
    run_dir = write_run(tmp_path / "newer", "bb")
    with Journal(run_dir / "journal-1-supervisor.jsonl") as journal:
        journal.append(SupervisionStarted(run_id="bb", attempt=1, pid=2**22 + 2, host="h", wall_ns=0))
    telemetry = run_dir / "journal-1-telemetry.jsonl"
    with Journal(telemetry) as journal:
        journal.append(TelemetryStarted(run_id="bb", attempt=1, rank=0))
    assert [run.telemetry_left_out for run in model_of(tmp_path).runs] == [False, False]
    telemetry.unlink()
    assert sorted(run.telemetry_left_out for run in model_of(tmp_path).runs) == [False, True]


def test_scores_carry_their_counts_and_intervals(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(5, 9), proof=9)
    model = model_of(tmp_path)
    first, last = model.runs[0].scores
    assert (
        first.wall_s,
        first.heldout_successes,
        first.heldout_episodes,
        first.proof_successes,
        first.proven,
    ) == (5.0, 5, 10, None, False)
    assert (first.low, first.high) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))
    assert (last.wall_s, last.proof_successes, last.proof_episodes, last.proven) == (8.0, 9, 10, True)
    assert model.runs[0].summary.wall_to_target_s == 9.0
    assert (model.yardsticks[0].task, model.yardsticks[0].episodes) == ("T", 10)


def test_cohorts_without_a_run_and_runs_left_out_are_counted(tmp_path: Path) -> None:
    write_run(tmp_path / "logs", "aa", cohort="c", target_success=0.975)
    write_run(tmp_path / "logs", "bb", cohort="c", seed=2, target_success=0.975)
    declare_cohort(tmp_path / "logs", "never", 4)
    page, log_root = tmp_path / "page.html", str(tmp_path / "logs")
    build_report(["page", str(page), "--log_root", log_root])
    whole = page.read_text()
    assert "<bdi>never</bdi>" in whole and "4 missing" in whole
    assert "target 97.5 % of 10" in whole
    assert 'class="prices"' not in whole
    build_report(["page", str(page), "aa", "--log_root", log_root, "--instance", "aws-g5.xlarge"])
    part = page.read_text()
    assert f"ledger <bdi>{log_root}</bdi> · 1 of its 2 runs" in part
    assert "<dt>asked for</dt><dd><bdi>aws-g5.xlarge at $1.006 per hour" in part
    assert "<dt>declared</dt><dd><bdi>local (unpriced)" in part
    assert "0 of 2" in part  # the cohort is whole
    assert "<bdi>never</bdi>" not in part


def test_intervals_count_seeds_where_a_panel_has_several_cells(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=())
    once = result("aa", "model_1.pt", 5)
    both = {name: 2 * column for name, column in vars(once.outcomes).items()}
    both["cell"] = ["nominal"] * 10 + ["push"] * 10
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        journal.append(dataclasses.replace(once, outcomes=Outcomes(**both)))
    (score,) = model_of(tmp_path).runs[0].scores
    assert (score.heldout_successes, score.heldout_episodes) == (10, 20)
    assert (score.low, score.high) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))


def test_episodes_are_one_letter_each(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(5, 9), proof=9)
    with Journal(run_dir / "journal-evaluation-00-0.jsonl") as journal:
        journal.append(result("aa", "model_2.pt", 4, panel_id="p1-bb"))
        journal.append(result("aa", "model_2.pt", 8))  # the first score stands
        journal.append(result("aa", "model_1.pt", 8, panel_id="p1-bb", invalid="overflow"))
    collection = collect_outcomes(read_ledger(tmp_path).runs)
    assert collection.ends == [SUCCESS, SHORT, "fell"]
    assert [(sheet.panel, sheet.checkpoint, sheet.letters) for sheet in collection.sheets[0]] == [
        (0, "model_1.pt", "aaaaaccccc"),
        (0, "model_2.pt", "aaaaaaaaac"),
        (1, "model_2.pt", "aaaacccccc"),
    ]
    assert (collection.panels[0].cells, collection.panels[0].counts) == (["nominal"], [10])
    assert collection.panels[0].seeds == list(range(10))


def test_each_cohort_has_a_curve_and_two_cohorts_a_test(tmp_path: Path) -> None:
    for seed in range(5):
        write_run(tmp_path, f"a{seed}", proof=10, cohort="a", seed=seed)
        write_run(tmp_path, f"b{seed}", scores=(5, 6), cohort="b", seed=seed)
    model = model_of(tmp_path)
    one, other = model.time_curves
    assert one is not None and other is not None
    assert (one.t, one.share) == ([9.0], [1.0])
    assert (other.t, other.share) == ([9.0], [0.0])
    (test,) = model.log_rank_tests
    assert (test.a, test.b, test.p_value) == (0, 1, pytest.approx(2 / 252))
    write_run(tmp_path, "alone", proof=10)
    assert model_of(tmp_path).time_curves[-1] is None
    write_run(tmp_path, "c1", cohort="c")
    assert model_of(tmp_path).log_rank_tests == []


def test_cohorts_that_do_not_measure_the_same_are_not_tested(tmp_path: Path) -> None:
    for seed in range(5):
        write_run(tmp_path, f"a{seed}", proof=10, cohort="a", seed=seed)
        write_run(tmp_path, f"b{seed}", scores=(5, 6), cohort="b", seed=seed, timing="synchronized")
    assert model_of(tmp_path).log_rank_tests == []


def test_a_run_that_was_repeated_does_not_count_among_the_five(tmp_path: Path) -> None:
    for seed in range(5):
        write_run(tmp_path, f"a{seed}", proof=10, cohort="a", seed=seed)
        write_run(
            tmp_path,
            f"b{seed}",
            scores=(5, 6),
            cohort="b",
            seed=max(seed, 1),
            status=Status.COMPLETED if seed else Status.PREEMPTED,
        )
    assert model_of(tmp_path).log_rank_tests == []
