"""An attempt on another host counts as lost after a time of silence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger_lab.ledger import AttemptStarted, Journal, Status, SupervisionStarted, read_ledger
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
