"""An attempt ends with one correct status when memory or disk space runs out."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from multiprocessing import Pipe
from pathlib import Path

import pytest

from ledger_lab.ledger import Status
from ledger_lab.ledger.meters.suspension import Suspensions
from ledger_lab.reports.terminal.exit_status import OutOfMemoryKills, status_of_exit
from tests.fakes.limits import little_memory, tiny_disk
from tests.fakes.supervised import attempt_of, worker


@pytest.mark.parametrize(
    ("groups", "own", "farther"),
    [
        ("0::/job/step", "sys/fs/cgroup/job/step/memory.events", "sys/fs/cgroup/job/memory.events"),
        ("0::/job/step", "sys/fs/cgroup/job/memory.events", "proc/vmstat"),
        ("4:memory:/docker/a", "sys/fs/cgroup/memory/memory.oom_control", "proc/vmstat"),
    ],
)
def test_memory_kills_of_other_processes_do_not_count(tmp_path: Path, groups: str, own: str, farther: str) -> None:
    for name, text in (("proc/self/cgroup", groups), (own, "oom_kill 3\n"), (farther, "oom_kill 5\n")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    kills = OutOfMemoryKills(tmp_path)
    (tmp_path / farther).write_text("oom_kill 6\n")
    assert not kills.happened()
    (tmp_path / own).write_text("oom_kill 4\n")
    assert kills.happened()


def test_only_a_kill_for_memory_just_before_the_exit_counts(tmp_path: Path) -> None:
    counter, now_s = tmp_path / "proc" / "vmstat", [0.0]
    counter.parent.mkdir()
    counter.write_text("oom_kill 3\n")
    kills = OutOfMemoryKills(tmp_path, lambda: now_s[0])

    def pass_time(seconds: int) -> None:
        for _ in range(seconds):
            now_s[0] += 1
            kills.look()

    counter.write_text("oom_kill 4\n")  # another process
    pass_time(60)
    assert kills.happened() is False
    assert status_of_exit(-signal.SIGKILL, None, None, killed_for_memory=kills.happened())[0] is Status.KILLED
    counter.write_text("oom_kill 5\n")
    assert kills.happened() is True
    pass_time(3)  # while the process gives back its memory
    assert kills.happened() is True
    pass_time(10)
    assert kills.happened() is False


@pytest.mark.parametrize("how", ["complete", "disk_full"])
def test_a_full_disk_has_a_status_of_its_own_and_reserved_space(tmp_path: Path, how: str) -> None:
    small = tmp_path / "small"
    with worker(small, how, prefix=tuple(tiny_disk(small, "400k", kept=tmp_path))) as process:
        assert process.wait(60) == (0 if how == "complete" else 1)
    attempt = attempt_of(tmp_path)
    assert attempt.ended is not None
    assert attempt.status is (Status.COMPLETED if how == "complete" else Status.DISK_FULL)
    if how == "disk_full":
        assert "No space left on device" in str(attempt.ended.reason)


def test_kills_by_the_kernel_are_distinguished_from_other_kills(tmp_path: Path) -> None:
    with little_memory(150 * 2**20) as prefix, worker(tmp_path, "killed_for_memory", prefix=tuple(prefix)) as process:
        assert process.wait(120) == 1
    attempt = attempt_of(tmp_path)
    assert attempt.ended is not None
    assert attempt.status is Status.OUT_OF_MEMORY
    assert "lack of host memory" in str(attempt.ended.reason)


def test_an_end_that_is_written_after_retries_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.ledger import AttemptEnded, Journal, read_journal
    from ledger_lab.training.supervision.supervisor import Supervisor

    sync, refusals = os.fsync, [0]

    def reluctant(descriptor: int) -> None:
        refusals[0] += 1
        if refusals[0] <= 3:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    end = AttemptEnded(
        status=Status.CRASHED, reason=None, wall_ns=1, peak_host_memory_bytes=None, peak_gpu_memory_bytes=None
    )
    child = subprocess.Popen(["sleep", "60"])
    try:
        supervisor = Supervisor(child.pid, Pipe()[0], 0, Suspensions(), grace_s=1, shutdown_s=1)
        with Journal(tmp_path / "journal-1-supervisor.jsonl") as journal:
            supervisor._journals.append(journal)
            monkeypatch.setattr(os, "fsync", reluctant)
            supervisor._write_end(end, 1)
    finally:
        child.kill()
        child.wait()
    assert read_journal(tmp_path / "journal-1-supervisor.jsonl").rows == (end,)


def test_an_attempt_without_space_for_its_end_ends_before_it_works(tmp_path: Path) -> None:
    small = tmp_path / "small"
    with worker(small, "complete", prefix=tuple(tiny_disk(small, "32k", kept=tmp_path))) as process:
        assert process.wait(60) == 1
        assert process.stderr is not None
        assert "No space left on device" in (said := process.stderr.read()) and "supervisor:" not in said
    assert not list(tmp_path.glob("*supervisor*"))
    assert attempt_of(tmp_path).status is Status.DISK_FULL
