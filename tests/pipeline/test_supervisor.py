"""Whatever ends an attempt becomes one status, and one exit status that tells the truth."""

from __future__ import annotations

import errno
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from ledger_lab.ledger import Attempt, Run, ShutdownEnded, Status, read_ledger
from ledger_lab.pipeline.verdict_of_exit import OutOfMemoryKills, status_of_exit
from tests.fakes.limits import little_memory, tiny_disk

ROOT = Path(__file__).parents[2]


@contextmanager
def worker(run_dir: Path, how: str, *limits: str, prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """Start the fake worker; nothing of it is left in the end."""
    command = [*prefix, sys.executable, str(ROOT / "tests" / "fakes" / "worker.py"), str(run_dir), how, *limits]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        for each in [*psutil.Process(process.pid).children(recursive=True), process] if process.poll() is None else []:
            each.kill()
        process.communicate()


def run_of(run_dir: Path) -> Run:
    """Return the one run in a directory."""
    (run,) = read_ledger(run_dir).runs
    return run


def attempt_of(run_dir: Path) -> Attempt:
    """Return its one attempt, whose end is written at most once."""
    (attempt,) = run_of(run_dir).attempts
    return attempt


@pytest.mark.parametrize(
    ("how", "status", "exit_status", "reason"),
    [
        ("complete", Status.COMPLETED, 0, None),
        ("fail", Status.CRASHED, 1, "RuntimeError: banana"),
        ("diverge", Status.NON_FINITE, 1, "FloatingPointError: value_loss not finite at iteration 3"),
        ("out_of_memory", Status.OUT_OF_MEMORY, 1, "MemoryError"),
        ("kill", Status.KILLED, 137, "SIGKILL by somebody else, not for want of memory"),
        ("fault", Status.CRASHED, 1, "SIGSEGV: a fault outside Python"),
        ("vanish", Status.CRASHED, 1, "the process ended with exit status 7 and without a word"),
    ],
)
def test_every_end_has_its_status(
    tmp_path: Path, how: str, status: Status, exit_status: int, reason: str | None
) -> None:
    with worker(tmp_path, how) as process:
        assert process.wait(60) == exit_status
    attempt = attempt_of(tmp_path)
    assert attempt.ended is not None
    assert (attempt.status, attempt.ended.reason) == (status, reason)
    assert attempt.shutdown is not None
    assert attempt.wall_ns == attempt.shutdown.wall_ns >= attempt.ended.wall_ns
    assert not list(tmp_path.glob("*.reserve"))


@pytest.mark.parametrize(
    ("signum", "status", "exit_status"),
    [
        (signal.SIGINT, Status.INTERRUPTED, 130),
        (signal.SIGHUP, Status.INTERRUPTED, 130),
        (signal.SIGQUIT, Status.INTERRUPTED, 130),
        (signal.SIGTERM, Status.PREEMPTED, 143),
        (signal.SIGUSR1, Status.PREEMPTED, 143),
        (signal.SIGUSR2, Status.PREEMPTED, 143),
        (signal.SIGXCPU, Status.PREEMPTED, 143),
    ],
)
def test_a_signal_to_the_supervisor_reaches_the_work(
    tmp_path: Path, signum: signal.Signals, status: Status, exit_status: int
) -> None:
    with worker(tmp_path, "wait") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        process.send_signal(signum)
        process.send_signal(signum)  # as schedulers do that signal every process of a job
        assert process.wait(60) == exit_status
    attempt = attempt_of(tmp_path)
    assert attempt.ended is not None
    assert attempt.status is status
    assert signum.name in str(attempt.ended.reason)
    assert "killed" not in str(attempt.ended.reason)


def test_a_signal_that_reaches_work_and_supervisor_at_once_ends_it_once(tmp_path: Path) -> None:
    with worker(tmp_path, "wait") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        (child,) = psutil.Process(process.pid).children()
        child.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert attempt_of(tmp_path).status is Status.PREEMPTED


def test_work_that_does_not_end_when_it_is_asked_to_is_killed(tmp_path: Path) -> None:
    with worker(tmp_path, "wait_deaf", "0.5", "60") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    attempt = attempt_of(tmp_path)
    assert attempt.ended is not None and attempt.shutdown is not None
    assert attempt.status is Status.PREEMPTED
    assert attempt.ended.reason == "SIGTERM; killed, as it did not end within 0.5 s"
    assert attempt.shutdown.overdue


def test_a_shutdown_that_hangs_is_ended_and_changes_nothing(tmp_path: Path) -> None:
    with worker(tmp_path, "hang_in_the_end", "20", "0.5") as process:
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "did not go within 0.5 s" in process.stderr.read()
    attempt = attempt_of(tmp_path)
    assert attempt.status is Status.COMPLETED
    assert attempt.shutdown is not None
    assert (attempt.shutdown.overdue, attempt.shutdown.signal) == (True, "SIGKILL")


def test_a_fault_in_shutdown_is_told_and_changes_nothing(tmp_path: Path) -> None:
    with worker(tmp_path, "crash_in_the_end") as process:
        assert process.wait(60) == 0
        assert process.stderr is not None and "SIGSEGV while it shut down" in process.stderr.read()
    attempt = attempt_of(tmp_path)
    assert attempt.status is Status.COMPLETED
    assert attempt.shutdown == ShutdownEnded(wall_ns=attempt.wall_ns, exit_code=None, signal="SIGSEGV", overdue=False)


def test_what_the_work_leaves_behind_goes_with_it(tmp_path: Path) -> None:
    with worker(tmp_path, "leave_a_child") as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline().split()[1])
        assert process.wait(60) == 137
    deadline_s = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_without_its_supervisor_the_work_ends_and_the_run_is_lost(tmp_path: Path) -> None:
    with worker(tmp_path, "wait") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        (child,) = psutil.Process(process.pid).children()
        time.sleep(1.2)  # a sign of life, at least
        process.kill()
        process.wait()
        child.wait(60)
    attempt = attempt_of(tmp_path)
    assert attempt.status is Status.LOST
    assert attempt.wall_ns > 1_000_000_000, "billed to its last sign of life"
    assert all(path.suffix == ".jsonl" for path in tmp_path.iterdir())


def test_who_interrupts_twice_means_it(tmp_path: Path) -> None:
    with worker(tmp_path, "wait_deaf") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(15) == 130
    ended = attempt_of(tmp_path).ended
    assert ended is not None and ended.reason == "SIGINT; killed, as it was interrupted once more"


DEAF_TO_CHILDREN = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(
    "prefix",
    [
        ("sh", "-c", 'exec "$0" "$@" >&-'),
        ("sh", "-c", 'exec "$0" "$@" >&- 2>&-'),
        ("sh", "-c", 'exec "$0" "$@" <&-'),
        (sys.executable, "-c", DEAF_TO_CHILDREN),
    ],
    ids=["output", "output and errors", "input", "ends of children"],
)
def test_what_a_parent_took_away_is_not_missed(tmp_path: Path, prefix: tuple[str, ...]) -> None:
    with worker(tmp_path, "complete", prefix=prefix) as process:
        assert process.wait(60) == 0
    attempt = attempt_of(tmp_path)
    assert attempt.status is Status.COMPLETED
    assert attempt.shutdown is not None


def test_nobody_needs_to_listen(tmp_path: Path) -> None:
    with worker(tmp_path, "kill") as process:
        assert process.stderr is not None
        process.stderr.close()
        assert process.wait(60) == 137
        process.stderr = None
    assert attempt_of(tmp_path).shutdown is not None


def test_an_error_of_any_length_is_told(tmp_path: Path) -> None:
    with worker(tmp_path, "fail_at_length") as process:
        assert process.wait(60) == 1
    ended = attempt_of(tmp_path).ended
    assert ended is not None and ended.reason is not None
    assert ended.reason.startswith("RuntimeError: \\udce90.0, 0.0, ")


def test_no_terminal_stops_the_work(tmp_path: Path) -> None:
    """It runs behind the group that has the terminal: who reads from it is stopped there, and so may be who writes."""
    worker_file = str(ROOT / "tests" / "fakes" / "worker.py")
    pid, terminal = pty.fork()
    if pid == 0:
        modes = termios.tcgetattr(0)
        modes[3] |= termios.TOSTOP
        termios.tcsetattr(0, termios.TCSANOW, modes)
        os.execv(sys.executable, [sys.executable, worker_file, str(tmp_path), "ask_the_terminal"])
    try:
        assert select.select([terminal], [], [], 30)[0]
        assert b"working ''" in os.read(terminal, 1024)
    finally:
        os.close(terminal)
        _, wait_status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(wait_status) in (0, 130), "by its own end, or by that of the terminal"
    assert attempt_of(tmp_path).ended is not None


@pytest.mark.parametrize(
    ("code", "asked", "status"),
    [
        (130, None, Status.INTERRUPTED),
        (130, signal.SIGHUP, Status.INTERRUPTED),
        (143, signal.SIGTERM, Status.PREEMPTED),
        (143, None, Status.PREEMPTED),
        (1, signal.SIGTERM, Status.CRASHED),
    ],
)
def test_a_signal_before_the_work_began_is_no_crash(code: int, asked: signal.Signals | None, status: Status) -> None:
    assert status_of_exit(code, asked, None, killed_for_memory=False)[0] is status


@pytest.mark.parametrize(
    ("groups", "own", "farther"),
    [
        ("0::/job/step", "sys/fs/cgroup/job/step/memory.events", "sys/fs/cgroup/job/memory.events"),
        ("0::/job/step", "sys/fs/cgroup/job/memory.events", "proc/vmstat"),
        ("4:memory:/docker/a", "sys/fs/cgroup/memory/memory.oom_control", "proc/vmstat"),
    ],
)
def test_who_else_is_killed_for_memory_does_not_count(tmp_path: Path, groups: str, own: str, farther: str) -> None:
    for name, text in (("proc/self/cgroup", groups), (own, "oom_kill 3\n"), (farther, "oom_kill 5\n")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    kills = OutOfMemoryKills(tmp_path)
    (tmp_path / farther).write_text("oom_kill 6\n")
    assert not kills.happened()
    (tmp_path / own).write_text("oom_kill 4\n")
    assert kills.happened()


@pytest.mark.parametrize("how", ["complete", "disk_full"])
def test_a_full_disk_is_a_status_and_has_room_for_it(tmp_path: Path, how: str) -> None:
    small = tmp_path / "small"
    with worker(small, how, prefix=tuple(tiny_disk(small, "400k", kept=tmp_path))) as process:
        assert process.wait(60) == (0 if how == "complete" else 1)
    attempt = attempt_of(tmp_path)
    assert attempt.ended is not None
    assert attempt.status is (Status.COMPLETED if how == "complete" else Status.DISK_FULL)
    if how == "disk_full":
        assert "No space left on device" in str(attempt.ended.reason)


def test_the_kernels_own_killer_is_told_from_others(tmp_path: Path) -> None:
    with little_memory(150 * 2**20) as prefix, worker(tmp_path, "killed_for_memory", prefix=tuple(prefix)) as process:
        assert process.wait(120) == 1
    attempt = attempt_of(tmp_path)
    assert attempt.ended is not None
    assert attempt.status is Status.OUT_OF_MEMORY
    assert "want of host memory" in str(attempt.ended.reason)


def test_an_end_that_the_disk_takes_only_at_last_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger_lab.ledger import AttemptEnded, Journal, read_journal
    from ledger_lab.pipeline.supervisor import Supervisor

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
        supervisor = Supervisor(child.pid, socket.socketpair()[0], 0, grace_s=1, shutdown_s=1)
        with Journal(tmp_path / "journal-1-supervisor.jsonl") as journal:
            supervisor._journals.append(journal)
            monkeypatch.setattr(os, "fsync", reluctant)
            supervisor._write_end(end, 1)
    finally:
        child.kill()
        child.wait()
    assert read_journal(tmp_path / "journal-1-supervisor.jsonl").rows == (end,)
