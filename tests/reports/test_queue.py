"""The time in a scheduler's queue is reported, and not billed."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ledger_lab.cli.report import build_report
from ledger_lab.ledger import AttemptEnded, AttemptStarted, Journal, SchedulerJob, Status, read_ledger
from ledger_lab.reports import summarize_run
from tests.fakes.ledgers import SECOND, declared, window


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
            journal.append(
                AttemptEnded(
                    status=Status.COMPLETED,
                    reason=None,
                    wall_ns=10 * SECOND,
                    peak_host_memory_bytes=1,
                    peak_gpu_memory_bytes=None,
                )
            )


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


def test_an_unknown_time_in_the_queue_is_missing(tmp_path: Path) -> None:
    queued_run(tmp_path, job(60.0, 0), job(None, 1))
    (run,) = read_ledger(tmp_path).runs
    assert summarize_run(run).queue_s is None
