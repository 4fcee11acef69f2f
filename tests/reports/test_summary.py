"""Every figure follows from the rows, with its denominator."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from ledger_lab.cli.report import build_report
from ledger_lab.ledger import AttemptStarted, CapacityUsed, Journal, SchedulerJob, Status, read_ledger
from ledger_lab.ledger.costs.prices import load_prices
from ledger_lab.ledger.libraries import agent_key
from ledger_lab.panels import ProvenShare
from ledger_lab.reports import render_report, render_run, summarize_cohorts, summarize_run
from ledger_lab.reports.summary import library_cell
from ledger_lab.units import duration, quantity, usd
from tests.fakes.ledgers import SECOND, declared, ended, priced, result, window, write_further_rank, write_run

PRICED = priced()


def summary_of(root: Path):  # noqa: ANN201
    (run,) = read_ledger(root).runs
    return summarize_run(run)


def everything(root: Path, width: int = 200) -> str:
    """Return everything that a report shows about the only run of a ledger."""
    (run,) = read_ledger(root).runs
    out = StringIO()
    Console(file=out, width=width).print(render_run(run, summarize_run(run), None, width))
    return out.getvalue()


def test_a_run_that_reached_its_target(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(5, 9), proof=9, status=Status.TARGET_REACHED, price=PRICED)
    summary = summary_of(tmp_path)
    assert (summary.env_steps, summary.wall_s, summary.train_s, summary.evaluate_s) == (80, 9.0, 6.0, 1.0)
    assert summary.env_steps_per_s == pytest.approx(80 / 6)
    assert summary.env_steps_per_wall_s == pytest.approx(80 / 7)
    assert summary.fps_step == pytest.approx(80 / 3)
    assert summary.fps_step_inference == pytest.approx(80 / 4)
    assert summary.updates_per_min == pytest.approx(20)
    assert summary.updates_per_wall_min == pytest.approx(2 / 7 * 60)
    assert summary.gradient_steps_per_env_step == pytest.approx(1 / 40)
    assert summary.seconds_per_update == pytest.approx(1.0)
    assert summary.evaluation_share == pytest.approx(1 / 9)
    assert (summary.target_reached, summary.wall_to_target_s) == (True, 9.0)
    assert (summary.heldout_successes, summary.heldout_episodes, summary.heldout_success) == (9, 10, 0.9)
    assert summary.heldout_interval is not None and summary.heldout_interval[0] == 0.9 < summary.heldout_interval[1]
    assert summary.billable_usd == pytest.approx(9.0)
    assert summary.usd_per_billion_env_steps == pytest.approx(9 / 80 * 1e9)
    assert (summary.peak_host_memory_gb, summary.peak_gpu_memory_gb) == (2.0, None)
    assert sum(summary.phases.values()) == pytest.approx(summary.wall_s)
    assert [c.heldout_survived for c in summary.checkpoints] == [5, 9]


def test_a_run_that_fell_short_shows_its_last_checkpoint_and_no_time(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(8, 3))
    summary = summary_of(tmp_path)
    assert (summary.heldout_successes, summary.target_reached, summary.wall_to_target_s) == (3, False, None)
    assert summary.billable_usd is None


def test_what_was_not_measured_is_none_and_never_zero(tmp_path: Path) -> None:
    write_run(tmp_path, "aa", scores=(), status=Status.CRASHED)
    summary = summary_of(tmp_path)
    assert (summary.evaluate_s, summary.evaluation_share, summary.heldout_success) == (None, None, None)
    path = tmp_path / "rsl_rl" / "e" / "aa" / "journal-1-0.jsonl"
    path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:3]) + b"\n")
    summary = summary_of(tmp_path)
    assert summary.status == "lost"
    assert summary.wall_s == 2.0
    assert (summary.train_s, summary.env_steps_per_s, summary.fps_step, summary.updates_per_min) == (None,) * 4


def test_a_vanished_run_is_lost_and_a_live_run_is_running(tmp_path: Path) -> None:
    write_run(tmp_path / "dead", "aa", scores=(), status=None)
    write_run(tmp_path / "alive", "bb", scores=(), status=None, pid=os.getpid())
    assert summary_of(tmp_path / "dead").status == "lost"
    assert summary_of(tmp_path / "alive").status == "running"
    assert [Status(s).failed for s in ("lost", "running")] == [True, False]
    assert summary_of(tmp_path / "dead").wall_s == 5.0


def test_all_panels_of_a_proof_count(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(9,))
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        for extension, (successes, needed) in enumerate([(8, 9), (9, 10), (10, 9)]):
            row = result("aa", "model_1.pt", successes, f"p1-fresh{extension}", purpose="proof")
            fresh = replace(row.outcomes, seed=[1000 * (extension + 1) + seed for seed in row.outcomes.seed])
            journal.append(replace(row, extension=extension, needed=needed, outcomes=fresh))
    (run,) = read_ledger(tmp_path).runs
    summary = summarize_run(run)
    assert summary.target_reached and summary.checkpoints[0].proven
    assert (summary.heldout_successes, summary.heldout_episodes) == (27, 30)
    assert (summary.checkpoints[0].proof_successes, summary.checkpoints[0].proof_episodes) == (27, 30)
    proof = ProvenShare(successes=27, episodes=30, target=0.9, first_needed=9, first_episodes=10)
    assert summary.heldout_interval == proof.interval()


def test_an_extension_on_seeds_of_its_proof_does_not_count_them_twice(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(9,))
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        for extension in range(2):
            row = result("aa", "model_1.pt", 8 + extension, "p1-fresh", purpose="proof")
            journal.append(replace(row, extension=extension, needed=10))
    (run,) = read_ledger(tmp_path).runs
    summary = summarize_run(run)
    assert (summary.checkpoints[0].proof_successes, summary.checkpoints[0].proof_episodes) == (9, 10)


def test_only_a_valid_proof_proves_the_target(tmp_path: Path) -> None:
    write_run(tmp_path / "checked", "aa", scores=(5, 10))
    write_run(tmp_path / "refuted", "bb", scores=(5, 10), proof=8)
    run_dir = write_run(tmp_path / "invalid", "cc", scores=(5, 10))
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        journal.append(result("cc", "model_2.pt", 10, "p1-fresh", purpose="proof", invalid="overflow"))
    for name, shown, again in (("checked", 10, None), ("refuted", 10, 8), ("invalid", 10, None)):
        summary = summary_of(tmp_path / name)
        assert (summary.target_reached, summary.wall_to_target_s, summary.proven) == (False, None, None), name
        assert (summary.heldout_successes, summary.checkpoints[-1].proof_successes) == (shown, again)
        assert summary.invalid_reason == ("overflow" if name == "invalid" else None)


def test_only_the_first_score_on_the_runs_panel_counts(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", scores=(5, 8))
    with Journal(run_dir / "journal-evaluation-00-0.jsonl") as journal:
        journal.append(result("aa", "model_2.pt", 10))
        journal.append(result("aa", "model_1.pt", 10, panel_id="p1-bb"))
    summary = summary_of(tmp_path)
    assert [c.heldout_successes for c in summary.checkpoints] == [5, 8]
    assert not summary.target_reached


def test_the_room_for_physics_is_the_maximum_over_processes(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, "aa", (5, 9), world_size=2)
    write_further_rank(run_dir)
    assert summary_of(tmp_path).room is None, "nobody looked"
    training = CapacityUsed(
        constraints=30, constraint_capacity=40, contacts=50, contact_capacity=200, slots=10, wall_ns=10 * SECOND
    )
    with Journal(run_dir / "journal-2-0.jsonl") as journal:
        journal.append(AttemptStarted(run_id="aa", attempt=2, rank=0, pid=2**22 + 1, host="there", wall_ns=SECOND))
        journal.append(training)
    with Journal(run_dir / "journal-2-1.jsonl") as journal:
        journal.append(AttemptStarted(run_id="aa", attempt=2, rank=1, pid=2**22 + 1, host="there", wall_ns=SECOND))
        journal.append(replace(training, constraints=31, contacts=9, contact_capacity=80, slots=4))
    with Journal(run_dir / "journal-evaluation-00-0.jsonl") as journal:
        journal.append(result("aa", "model_2.pt", 9))
        journal.append(replace(training, constraints=39, contacts=199))
    summary = summary_of(tmp_path)
    room = summary.room
    assert (room.constraints, room.constraint_capacity) == (31, 40), "the evaluation's is another simulation"
    assert (room.contacts_per_env, room.contact_capacity_per_env) == (5.0, 20.0)


def test_repricing_changes_only_the_cost(tmp_path: Path) -> None:
    write_run(tmp_path, "aa")
    (run,) = read_ledger(tmp_path).runs
    price = load_prices()["aws-g5.xlarge"]
    repriced = summarize_run(run, price)
    assert repriced.billable_usd == pytest.approx(60 / 3600 * price.usd_per_hour)
    assert repriced.instance == "aws-g5.xlarge"
    assert replace(
        repriced, instance="local", usd_per_hour=None, billable_usd=None, usd_per_billion_env_steps=None
    ) == (summarize_run(run))


@pytest.mark.parametrize(
    ("width", "most"), [(80, "cost"), (120, "envs"), (200, "evaluation afterwards"), (1000, "evaluation afterwards")]
)
def test_a_row_has_the_columns_that_fit_and_the_report_says_how_many_are_hidden(width: int, most: str) -> None:
    ledger = read_ledger(Path("records/ant-cpu"))
    summaries = [summarize_run(run) for run in ledger.runs]
    console = Console(width=width)
    with console.capture() as drawn:
        console.print(render_report(summaries, summarize_cohorts(summaries, ledger.cohorts), width))
    lines = [line for line in drawn.get().splitlines() if line]
    assert max(map(len, lines)) <= width
    heading, *rows = lines[1 if width > 80 else 2 :][:10]
    assert heading.endswith(most) and [row.split()[0] for row in rows] == [each.run_id for each in summaries]
    hidden = {80: "7 columns hidden in this width; ", 120: "3 columns hidden in this width; "}.get(width, "")
    assert f"\n{hidden}--details shows every figure of each run" in drawn.get()


def test_figures_are_formatted_for_reading() -> None:
    assert [duration(s) for s in (None, 59.6, 61, 3661)] == ["–", "1:00", "1:01", "1:01:01"]
    assert [quantity(n) for n in (None, 0, 999, 1024, 999_700, 1.2e6, 3e9)] == [
        "–",
        "0",
        "999",
        "1.02 k",
        "1 M",
        "1.2 M",
        "3 G",
    ]
    assert [usd(x) for x in (None, 0, 0.0123, 12.5)] == ["–", "$0.00", "$0.012", "$12.50"]


@pytest.mark.parametrize(
    ("library", "agent", "algorithm", "cell"),
    [
        ("skrl", agent_key("skrl", "sac"), "sac", "skrl · sac"),
        ("skrl", None, "ppo", "skrl"),
        ("rsl_rl", "my_own_entry_point", "ppo", "rsl_rl"),
        ("brax", None, None, "brax"),
    ],
)
def test_the_algorithm_is_named_if_it_is_known(
    library: str, agent: str | None, algorithm: str | None, cell: str, tmp_path: Path
) -> None:
    write_run(tmp_path, "aa", rl_library=library, agent=agent)
    (run,) = read_ledger(tmp_path).runs
    summary = summarize_run(run)
    assert (summary.algorithm, library_cell(summary)) == (algorithm, cell)


def job(queue_s: float | None, restarts: int) -> SchedulerJob:
    return SchedulerJob(
        engine="slurm", job="17", index=3, restarts=restarts, partition="gpu", nodes=["node1"], queue_s=queue_s
    )


def queued_run(root: Path, *jobs: SchedulerJob | None) -> None:
    """Write a run with an attempt of 10 s in each job, at $3.60 an hour."""
    run_dir = root / "rsl_rl" / "e" / "0badc0de"
    run_dir.mkdir(parents=True)
    price = {**declared("x").price, "usd_per_hour": 3.6, "market": "custom", "source": "s", "date": "2026-01-01"}
    for number, each in enumerate(jobs, start=1):
        with Journal(run_dir / f"journal-{number}-0.jsonl") as journal:
            if number == 1:
                journal.append(declared("0badc0de", price=price))
            journal.append(
                AttemptStarted(
                    run_id="0badc0de",
                    attempt=number,
                    rank=0,
                    pid=2**22 + 1,
                    host=socket.gethostname(),
                    wall_ns=SECOND,
                    job=each,
                )
            )
            journal.append(window(1, 40, {"simulate": 10 * SECOND}, 10 * SECOND))
            journal.append(ended(Status.COMPLETED, 10 * SECOND, peak_host_memory_bytes=1))


def test_the_time_in_the_queue_is_the_sum_over_the_attempts_and_costs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queued_run(tmp_path / "in", job(60.0, 0), job(30.0, 1))
    queued_run(tmp_path / "out", None, None)
    (inside,), (outside,) = (read_ledger(tmp_path / name).runs for name in ("in", "out"))
    queued, free = summarize_run(inside), summarize_run(outside)
    assert (queued.queue_s, free.queue_s) == (90.0, None)
    assert queued.wall_s == free.wall_s and queued.billable_usd == free.billable_usd == pytest.approx(0.02)
    build_report(["--log_root", str(tmp_path / "in")])
    assert "1:30" in capsys.readouterr().out
    assert inside.attempts[1].first_start is not None and inside.attempts[1].first_start.job == job(30.0, 1)
