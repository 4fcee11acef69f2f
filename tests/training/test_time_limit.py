"""A training with ``--limit_s`` ends in order when its time is used up, and never looks like a success."""

from __future__ import annotations

from pathlib import Path

from ledger_lab.ledger import STATE_FILE, AttemptEnded, PanelResult, Run, Status, read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.terminal.exit_status import EXIT_LIMIT
from ledger_lab.training.ranks import Agreement
from tests.conftest import SHORT, fake, one_run_dir, script
from tests.training.test_loop import Judge, Made, Trainer, judged


def only_run(root: Path) -> Run:
    (run,) = read_ledger(root).runs
    return run


class Late(Trainer):
    """Uses the time up in iteration 3."""

    made: Made

    def train(self, on_iteration: object) -> None:
        def late(iterations: int, figures: object) -> bool:
            if iterations == self.at:
                object.__setattr__(self.made.loop.limit, "spent_ns", 10**18)
            return on_iteration(iterations, figures)  # type: ignore[operator, no-any-return]

        super().train(late)

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at


def late(at: int, judge: Judge | None = None) -> Made:
    trainer = Late(at)
    trainer.made = Made(trainer, judge, limit_s=1e8)
    return trainer.made


def test_the_time_is_noticed_at_the_end_of_an_iteration() -> None:
    made = late(3)
    assert made.loop.run() is Status.LIMIT_REACHED
    assert "--limit_s 1e+08 was used up in iteration 3" in str(made.attempt.error)
    assert late(10).loop.run() is Status.COMPLETED, "all iterations are trained"


def test_a_confirmation_that_ended_in_the_same_iteration_counts() -> None:
    judge = Judge({3: judged("confirmation", 9)}, ends_after=3)
    assert late(3, judge).loop.run() is Status.COMPLETED, "the judge then says: target reached"


def test_only_a_limit_or_a_signal_or_a_health_event_ends_the_run() -> None:
    assert Agreement(False, None, False, True).ends and not Agreement(False, None, True).ends


def test_the_time_of_earlier_attempts_counts() -> None:
    made = Made(Trainer(), limit_s=1e3)
    object.__setattr__(made.loop.limit, "spent_ns", 10**12)
    assert made.loop.run() is Status.LIMIT_REACHED and not made.rows
    assert "by the start-up: nothing was trained in this attempt" in str(made.attempt.error)


def test_a_run_whose_time_is_used_up_keeps_its_last_policy_and_is_over(tmp_path: Path) -> None:
    asked = [*SHORT, "agent.save_interval=100", "--limit_s", "100000", "--usd_per_hour", "3.6"]
    ended = fake("limited", *asked, "--log_root", tmp_path, "2")
    assert ended.returncode == EXIT_LIMIT, ended.stdout + ended.stderr
    assert "limit reached: --limit_s 100000 was used up in iteration 2" in ended.stdout
    assert "Traceback" not in ended.stdout + ended.stderr
    run = only_run(tmp_path)
    rows = run.attempts[0].of(AttemptEnded)
    assert [row.status for row in rows] == [Status.LIMIT_REACHED]
    assert run.checkpoints[-1].iteration == 2 and not (run.directory / STATE_FILE).exists()
    assert not [row for row in run.attempts[0].of(PanelResult) if row.checkpoint == run.checkpoints[-1].path]
    summary = summarize_run(run)
    assert (summary.wall_to_target_s, summary.target_reached) == (None, False) and summary.billable_usd
    assert script("verify_ledger", "--log_root", tmp_path).returncode == 0
    again = script("train", "--resume", one_run_dir(tmp_path))
    assert again.returncode == 2 and "has ended: limit reached" in again.stderr + again.stdout
