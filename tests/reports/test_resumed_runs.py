"""A run of several attempts: lost work counts as restart, and nothing counts twice."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    Journal,
    PanelResult,
    Row,
    Run,
    StateRestored,
    StateSaved,
    Status,
    read_ledger,
)
from ledger_lab.reports import summarize_cohorts, summarize_run
from ledger_lab.reports.answer import answer_lines
from ledger_lab.reports.cohort_summary import Contents
from ledger_lab.reports.page.series import return_curve
from ledger_lab.reports.sql import query
from tests.fakes.ledgers import SECOND, declared, result, window


def started(attempt: int) -> AttemptStarted:
    return AttemptStarted(
        run_id="aaaaaaaa", attempt=attempt, rank=0, pid=2**22 + 1, host=socket.gethostname(), wall_ns=1
    )


def trained(iteration: int, at_s: int) -> Row:
    """Return the window of an iteration of a second, with its return."""
    row = window(iteration, 40 * iteration, {"simulate": SECOND // 2, "learn": SECOND // 2}, at_s * SECOND)
    return replace(row, figures={"mean_return": float(iteration)})


def began(phase: Literal["startup", "restart"]) -> Row:
    """Return the window of a start of two seconds."""
    return window(None, 0, {phase: 2 * SECOND}, 2 * SECOND)


def saved(sha256: str, iteration: int, at_s: int) -> StateSaved:
    return StateSaved(
        sha256=sha256, size_bytes=1, iteration=iteration, env_steps=40 * iteration,
        wall_ns=at_s * SECOND,
    )  # fmt: skip


def restored(sha256: str, attempt: int, iteration: int, saved_at_s: int) -> StateRestored:
    return StateRestored(
        sha256=sha256, attempt=attempt, saved_wall_ns=saved_at_s * SECOND, iteration=iteration,
        env_steps=40 * iteration, reasons=[], wall_ns=2 * SECOND,
    )  # fmt: skip


def checkpoint(sha256: str, iteration: int, at_s: int) -> CheckpointSaved:
    return CheckpointSaved(
        path=f"model_{iteration}.pt", sha256=sha256, size_bytes=1, iteration=iteration, env_steps=40 * iteration,
        wall_ns=at_s * SECOND,
    )  # fmt: skip


def ended(at_s: int, status: Status = Status.PREEMPTED) -> AttemptEnded:
    return AttemptEnded(
        status=status, reason=None, wall_ns=at_s * SECOND, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
    )


def scored(sha256: str, successes: int) -> PanelResult:
    row = result("aaaaaaaa", "model_2.pt", successes, purpose="check")
    return replace(row, checkpoint_sha256=sha256, wall_ns=4 * SECOND)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Four attempts at four iterations.

    The first one saves a state after its first iteration and loses the second one; the second one loses the same again,
    and all that it did; the third one begins where the first one saved, saves after iteration 2, and loses the third;
    the last one does the rest.
    """
    attempts: list[list[Row]] = [
        [began("startup"), trained(1, 3), saved("one", 1, 3), trained(2, 4), checkpoint("lost", 2, 4),
         scored("lost", 9),
         ended(5)],
        [began("restart"), restored("one", 1, 1, 3), trained(2, 3)],
        [began("restart"), restored("one", 1, 1, 3), trained(2, 3), saved("two", 2, 3), checkpoint("kept", 2, 3),
         trained(3, 4), ended(4)],
        [began("restart"), restored("two", 3, 2, 3), trained(3, 3), trained(4, 4),
         scored("kept", 5),
         ended(5, Status.COMPLETED)],
    ]  # fmt: skip
    (found,) = write(tmp_path, attempts)
    return found


def write(root: Path, attempts: Sequence[Sequence[Row]]) -> Sequence[Run]:
    """Write a run of several attempts; return all runs under the root."""
    for number, rows in enumerate(attempts, start=1):
        with Journal(root / f"journal-{number}-0.jsonl") as journal:
            for row in [*([declared("aaaaaaaa", max_iterations=4)] if number == 1 else []), started(number), *rows]:
                journal.append(row)
    return read_ledger(root).runs


def test_every_iteration_is_kept_once(run: Run) -> None:
    kept = [(attempt.number, window.iteration) for attempt, window in run.windows]
    assert kept == [(1, None), (1, 1), (3, None), (3, 2), (4, None), (4, 3), (4, 4)]
    assert [attempt.status for attempt in run.attempts][1] is Status.LOST
    curve = return_curve(run, points=10)
    assert curve is not None and curve.y == [1.0, 2.0, 3.0, 4.0]


def test_lost_work_is_restart_and_the_phases_still_sum_to_all_attempts(run: Run) -> None:
    summary = summarize_run(run)
    assert (summary.env_steps, summary.wall_s) == (160, 17.0)
    assert sum(summary.phases.values()) == summary.wall_s
    assert summary.phases["startup"] == 2.0
    # Two restarts that led on, one that did not, three iterations that were trained again, and the last second of the
    # first attempt, which told nothing of it.
    assert summary.phases["restart"] == 3 * 2.0 + 3 * 1.0 + 1.0
    assert (summary.phases["simulate"], summary.phases["learn"], summary.phases["unattributed"]) == (2.0, 2.0, 1.0)
    assert summary.env_steps_per_s == pytest.approx(160 / 5.0)
    answer = [line.plain for line in answer_lines(run, summary, 1000)]
    times = "0:17 in all: start-up 2 s · scoring 0 s · learning 5 s · restarts 10 s · other 0 s"
    assert f"  time     {times}" in answer


def test_sql_has_the_same_phases_and_they_sum_to_every_attempt(run: Run) -> None:
    summary = summarize_run(run)
    ledger = Contents([run], [summary], summarize_cohorts([summary]))
    assert dict(query(ledger, "SELECT phase, sum(seconds) FROM phases GROUP BY phase").rows) == summary.phases
    sums = query(
        ledger,
        "SELECT a.wall_s, sum(p.seconds) FROM attempts a JOIN phases p USING (run_id, attempt) "
        "GROUP BY a.attempt, a.wall_s",
    ).rows
    assert sorted(wall_s for wall_s, _ in sums) == [3.0, 4.0, 5.0, 5.0]
    assert all(wall_s == spent_s for wall_s, spent_s in sums)


def test_lost_work_never_counts_even_before_it_is_trained_again(tmp_path: Path) -> None:
    far = [began("startup"), trained(1, 3), saved("one", 1, 3), trained(2, 4), trained(3, 5)]
    near = [began("restart"), restored("one", 1, 1, 3), trained(2, 3), ended(4)]
    (run,) = write(tmp_path, [far, near])
    assert summarize_run(run).env_steps == 80


def test_a_checkpoint_that_was_trained_again_has_its_own_score(run: Run) -> None:
    (row,) = run.checkpoints
    assert row.sha256 == "kept"
    (told,) = summarize_run(run).checkpoints
    assert told.heldout_successes == 5, "not the score of the policy that was lost"
    assert told.wall_s == 5 + 3 + 3, "after the first two attempts"
