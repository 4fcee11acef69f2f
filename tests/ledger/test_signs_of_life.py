"""An attempt on another host counts as lost after a time of silence."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger_lab.ledger import (
    AttemptEnded,
    AttemptStarted,
    Journal,
    PhaseWindow,
    Status,
    SupervisionStarted,
    read_ledger,
)
from ledger_lab.ledger import journal as journal_module
from ledger_lab.ledger.liveness import identify_process, is_alive
from tests.fakes.ledgers import SECOND, declared, result, window


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


def test_a_run_that_ends_while_the_ledger_is_read_is_not_lost(tmp_path: Path) -> None:
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process,
        Journal(tmp_path / "journal-1-0.jsonl") as journal,
    ):
        journal.append(declared("aa"))
        start = {"run_id": "aa", "attempt": 1, "rank": 0, "host": socket.gethostname(), "wall_ns": 0}
        journal.append(AttemptStarted(pid=process.pid, process=identify_process(process.pid), **start))  # type: ignore[arg-type]
        (before,) = read_ledger(tmp_path).runs
        end = {"peak_host_memory_bytes": None, "peak_gpu_memory_bytes": None}
        journal.append(AttemptEnded(status=Status.COMPLETED, reason=None, wall_ns=1, **end))  # type: ignore[arg-type]
    assert before.attempts[0].status is Status.RUNNING  # as it was when it was read
    (after,) = read_ledger(tmp_path).runs
    assert after.attempts[0].status is Status.COMPLETED


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
        times = run.attempts[0].ranks[0].times
        assert list(times) == sorted(times) and times[-1] - times[0] < timedelta(minutes=1)


def test_the_processes_of_another_namespaces_proc_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    own = identify_process(os.getpid())
    assert own is not None
    readlink = os.readlink
    monkeypatch.setattr(os, "readlink", lambda path: "7" if path == "/proc/self" else readlink(path))
    assert identify_process(os.getpid()) == own
    assert identify_process(os.getppid()) is None
    assert is_alive(os.getpid(), own) is True
    assert is_alive(os.getpid(), replace(own, start_ticks=own.start_ticks + 1)) is False
    assert is_alive(os.getppid(), own) is None
    assert is_alive(os.getppid(), None) is None


def test_a_process_in_a_namespace_without_its_own_proc_knows_itself() -> None:
    unshare = ["unshare", "--pid", "--fork"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("this user can't make a PID namespace")
    program = """
import os
from ledger_lab.ledger.liveness import identify_process
with open("/proc/self/stat") as stat:
    started = int(stat.read().rpartition(")")[2].split()[19])
print(os.getpid(), identify_process(os.getpid()).start_ticks == started)
"""
    done = subprocess.run([*unshare, sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "True"]


def test_a_score_is_a_sign_of_life(tmp_path: Path) -> None:
    """A process that was killed after it had scored a policy lasted at least until then."""
    run_dir = tmp_path / "rsl_rl" / "e" / "aa"
    run_dir.mkdir(parents=True)
    with Journal(run_dir / "journal-1-0.jsonl") as journal:
        journal.append(declared("aa"))
        journal.append(AttemptStarted(run_id="aa", attempt=1, rank=0, pid=2**22 + 1, host="h", wall_ns=SECOND))
        journal.append(window(1, 40, {"simulate": SECOND}, 2 * SECOND))
        journal.append(result("aa", "model_1.pt", 5, purpose="check"))
    (run,) = read_ledger(tmp_path).runs
    assert run.attempts[-1].wall_ns == 9 * SECOND
