"""An attempt on another host counts as lost after a time of silence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger_lab.ledger import AttemptStarted, Journal, PhaseWindow, Status, SupervisionStarted, read_ledger
from ledger_lab.ledger import journal as journal_module
from ledger_lab.mirrors.follow import RunFollower
from tests.fakes.ledgers import declared


@pytest.mark.parametrize(
    ("supervised", "minutes", "status"),
    [
        (True, 1, Status.RUNNING),
        (True, 3, Status.LOST),
        (False, 3, Status.RUNNING),
        (False, 16, Status.LOST),
    ],
)
def test_a_silent_supervised_run_is_lost_sooner(
    supervised: bool, minutes: int, status: Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EarlierClock:
        @staticmethod
        def now(zone: object) -> datetime:
            return datetime.now(UTC) - timedelta(minutes=minutes)

    monkeypatch.setattr(journal_module, "datetime", EarlierClock)
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        journal.append(declared("aa"))
        journal.append(AttemptStarted(run_id="aa", attempt=1, rank=0, pid=1, host="elsewhere", wall_ns=0))
    if supervised:
        with Journal(tmp_path / "journal-1-supervisor.jsonl") as journal:
            journal.append(SupervisionStarted(run_id="aa", attempt=1, pid=1, host="elsewhere", wall_ns=0))
    (run,) = read_ledger(tmp_path).runs
    assert run.attempts[0].status is status
    follower = RunFollower(tmp_path)
    follower.poll()
    assert follower.status is status


def test_a_clock_that_is_set_back_calls_no_live_run_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        ahead = timedelta()

        @classmethod
        def now(cls, zone: object) -> datetime:
            return datetime.now(UTC) + cls.ahead

    monkeypatch.setattr(journal_module, "datetime", Clock)
    with Journal(tmp_path / "journal-1-0.jsonl") as journal:
        journal.append(declared("aa"))
        journal.append(AttemptStarted(run_id="aa", attempt=1, rank=0, pid=1, host="elsewhere", wall_ns=0))
        Clock.ahead = timedelta(hours=-1)
        journal.append(PhaseWindow(iteration=1, env_steps=1, phase_ns={}, wall_ns=1, figures={}, non_finite=[]))
        (run,) = read_ledger(tmp_path).runs
        assert run.attempts[0].status is Status.RUNNING
        follower = RunFollower(tmp_path)
        times = [entry.time for entry in follower.poll()]
        assert times == sorted(times) and times[-1] - times[0] < timedelta(minutes=1)
        assert follower.status is Status.RUNNING
