"""Every end of an attempt gives one status and the matching exit status."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path

import psutil
import pytest

from ledger_lab.ledger import (
    STATE_FILE,
    DeviceSample,
    EnergyReading,
    Status,
    Telemetry,
    read_journal,
)
from ledger_lab.ledger.meters.suspension import Suspensions
from ledger_lab.reports import summarize_run
from tests.fakes.supervised import attempt_of, run_of, worker
from tests.fakes.traced_devices import TracedDevices

ROOT = Path(__file__).parents[3]
TRACE = Path(__file__).parents[2] / "fakes" / "made_for_tests.trace.jsonl"


@pytest.fixture(autouse=True)
def _signals_given_back() -> Iterator[None]:
    """Restore signal handlers after a supervisor has run in this process, because it leaves signals ignored."""
    before = {signum: signal.getsignal(signum) for signum in signal.valid_signals()}
    yield
    for signum, handler in before.items():
        if signal.getsignal(signum) is not handler:
            signal.signal(signum, handler)


@pytest.mark.parametrize(
    ("how", "status", "exit_status", "reason"),
    [
        ("fail", Status.CRASHED, 1, "RuntimeError: banana"),
        ("kill", Status.KILLED, 137, "SIGKILL by another process, not for lack of memory"),
        ("real_time", Status.CRASHED, 1, "signal 37: a fault outside Python"),
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


@pytest.mark.parametrize("how", ["complete", "kill", "refuse_late"])
def test_the_report_is_made_after_the_last_row_of_an_attempt(tmp_path: Path, how: str) -> None:
    with worker(tmp_path, how) as process:
        process.wait(60)
        assert process.stdout is not None and process.stdout.read() == "last row: ShutdownEnded\n"
    expected = {"complete": Status.COMPLETED, "kill": Status.KILLED, "refuse_late": Status.CRASHED}
    assert attempt_of(tmp_path).status is expected[how], "an error of the user is kept and billed after the beginning"


def test_a_request_that_is_refused_before_the_work_begins_leaves_nothing(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    with worker(run_dir, "refuse") as process:
        assert process.wait(60) == 2
        assert process.stdout is not None and process.stdout.read() == "", "there is no report"
        assert process.stderr is not None and "supervisor:" not in process.stderr.read()
    assert not run_dir.exists()


@pytest.mark.parametrize(
    ("signum", "status", "exit_status"),
    [
        (signal.SIGINT, Status.INTERRUPTED, 130),
        (signal.SIGUSR1, Status.PREEMPTED, 143),
    ],
)
def test_a_signal_to_the_supervisor_reaches_the_worker(
    tmp_path: Path, signum: signal.Signals, status: Status, exit_status: int
) -> None:
    with worker(tmp_path, "wait") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        (child,) = psutil.Process(process.pid).children()
        for each in (child, process, process):  # as terminals and schedulers do that signal every process of a job
            each.send_signal(signum)
        assert process.wait(60) == exit_status
    attempt = attempt_of(tmp_path)
    assert attempt.ended is not None
    assert attempt.status is status
    assert signum.name in str(attempt.ended.reason)
    assert "killed" not in str(attempt.ended.reason)


@pytest.mark.parametrize(("saved", "told"), [(True, 1), (False, 0)])
def test_after_a_kill_the_resume_command_is_printed_if_there_is_a_state(tmp_path: Path, saved: bool, told: int) -> None:
    if saved:
        (tmp_path / STATE_FILE).write_bytes(b"")
    with worker(tmp_path, "wait", "10", "60", "7") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        (child,) = psutil.Process(process.pid).children()
        child.kill()
        assert process.wait(60) == 137
        assert process.stderr is not None
        said = process.stderr.read()
    line = f"supervisor: resume it: ./isaaclab.sh -p scripts/train.py --resume {tmp_path} --grace_s 7\n"
    assert said.count(line) == said.count("resume it") == told


@pytest.mark.parametrize(
    ("signum", "resume", "exit_status"),
    [
        (signal.SIGTERM, ["--resume", "aaaaaaaa"], 75),
        (signal.SIGUSR1, [], 143),
    ],
)
def test_a_resumed_run_that_is_ended_before_it_begins_exits_for_requeue(
    tmp_path: Path, signum: signal.Signals, resume: list[str], exit_status: int
) -> None:
    with worker(tmp_path, "start", "20", "60", *resume) as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        process.send_signal(signum)
        assert process.wait(60) == exit_status
    assert not list(tmp_path.iterdir())


def test_a_worker_that_does_not_end_within_its_own_limit_is_killed(tmp_path: Path) -> None:
    with worker(tmp_path, "wait_deaf", "20", "60", "0.5") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        printed = process.stderr.read() if process.stderr else ""
    assert "the process hangs; the stacks of its threads are above" in printed
    assert "most recent call first" in printed and "in wait_deaf" in printed
    attempt = attempt_of(tmp_path)
    assert attempt.ended is not None and attempt.shutdown is not None
    assert attempt.status is Status.PREEMPTED
    assert attempt.ended.reason == "SIGTERM; killed, as it did not end within 0.5 s"
    assert attempt.shutdown.overdue


def test_the_worker_is_suspended_and_continued_with_its_supervisor(tmp_path: Path) -> None:
    with worker(tmp_path, "wait") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        both = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
        for signum, stopped in ((signal.SIGTSTP, True), (signal.SIGCONT, False)):
            process.send_signal(signum)
            deadline_s = time.monotonic() + 60
            while any((each.status() == psutil.STATUS_STOPPED) is not stopped for each in both):
                assert time.monotonic() < deadline_s
                time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert attempt_of(tmp_path).status is Status.PREEMPTED


def _stopped(process: psutil.Process) -> None:
    """Wait until a process is stopped."""
    while process.status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)


def _asleep(process: psutil.Process) -> None:
    """Wait until a process sleeps, and not just for a moment between two pieces of work."""
    seen = 0
    while seen < 10:
        seen = seen + 1 if process.status() == psutil.STATUS_SLEEPING else 0
        time.sleep(0.01)


@pytest.mark.parametrize(
    "how", ["Ctrl-Z", pytest.param("the worker alone", marks=pytest.mark.thorough), "both, without a word"]
)
def test_the_time_of_a_suspension_counts_for_no_phase_of_the_work(tmp_path: Path, how: str) -> None:
    with worker(tmp_path, "simulate") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        supervisor = psutil.Process(process.pid)
        (child,) = supervisor.children()
        if how == "Ctrl-Z":
            supervisor.send_signal(signal.SIGTSTP)
        elif how == "the worker alone":
            child.suspend()
        else:
            _asleep(supervisor)  # a supervisor that is stopped while it works does not notice that
            for each in (supervisor, child):
                each.suspend()
        _stopped(child)
        time.sleep(0.5)  # for the supervisor to be told, or to wake up once more
        since_s = time.monotonic()
        time.sleep(2.5 if how == "both, without a word" else 0.5)
        stopped_s = time.monotonic() - since_s
        for each in (child,) if how == "the worker alone" else (supervisor, child):
            each.resume()
        if how == "both, without a word":
            stopped_s -= 0.6  # the supervisor meant to sleep for at most a second, of which half has passed
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    run = run_of(tmp_path)
    phases = summarize_run(run).phases
    assert phases["suspended"] >= stopped_s
    assert sum(phases.values()) == pytest.approx(run.attempts[0].wall_ns / 1e9)
    assert phases["simulate"] > 0


def test_deadlines_are_postponed_by_suspensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both processes were suspended: the clock has jumped when the supervisor looks again."""
    from ledger_lab.training.supervision import supervisor as module

    ahead_s = [0.0]

    class Clock:
        sleep, perf_counter_ns = time.sleep, time.perf_counter_ns

        @staticmethod
        def monotonic() -> float:
            return time.monotonic() + ahead_s[0]

    ours, theirs = Pipe()
    with ours, theirs, subprocess.Popen(["cat"], stdin=subprocess.PIPE, process_group=0) as child:
        monkeypatch.setattr(module, "time", Clock)
        supervisor = module.Supervisor(child.pid, ours, 0, Suspensions(), grace_s=60, shutdown_s=60)
        supervisor._deadline_s = Clock.monotonic() + 60

        def suspend() -> None:
            time.sleep(0.2)
            ahead_s[0] = 1000.0
            assert child.stdin is not None
            child.stdin.close()

        suspending = threading.Thread(target=suspend)
        suspending.start()
        assert supervisor.run() == 0
        suspending.join()
    assert supervisor._killed is None


def test_the_log_of_a_killed_worker_is_redacted(tmp_path: Path) -> None:
    with worker(tmp_path, "tell_a_secret") as process:
        assert process.wait(60) == 137
    assert (tmp_path / "console.log").read_text() == "connecting with api_key=[redacted]\n"


def test_each_journal_has_the_energy_counters_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that begins later has them, too, and so has each device."""
    from ledger_lab.training.supervision import journals

    class Traced:
        def __init__(self, started_ns: int, tell: object) -> None:
            self.devices = TracedDevices(TRACE)

        def sample(self, ordinal: int) -> list[DeviceSample]:
            return self.devices.sample()

        @staticmethod
        def energy_at_start(uuid: str) -> EnergyReading:
            return EnergyReading(wall_ns=1, energy_mj=2)

    monkeypatch.setattr(journals, "GpuMeter", Traced)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        beating = journals.Heartbeat(child.pid, 0, print, metered=True)
        for number in range(2):
            supervision = tmp_path / f"journal-evaluation-{number}-supervisor.jsonl"
            beating.begin(supervision, f"run{number}", None, 0, "cuda")
            assert beating.beat(at_once=True)
        assert beating.beat(at_once=True)
    found = []
    for journal in beating.journals:
        journal.close()
        rows = read_journal(journal.path).of(Telemetry)
        found.append([[device.energy_before is not None for device in row.devices] for row in rows])
    both, neither = [True, True], [False, False]
    # The first of the two GPUs does not answer the third time.
    assert found == [[both, both, neither], [both, neither]]


def test_a_hanging_shutdown_is_killed_and_keeps_the_status(tmp_path: Path) -> None:
    with worker(tmp_path, "hang_in_the_end", "20", "0.5") as process:
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "did not exit within 0.5 s" in process.stderr.read()
    attempt = attempt_of(tmp_path)
    assert attempt.status is Status.COMPLETED
    assert attempt.shutdown is not None
    assert (attempt.shutdown.overdue, attempt.shutdown.signal) == (True, "SIGKILL")


def test_without_its_supervisor_the_worker_ends_and_the_run_is_lost(tmp_path: Path) -> None:
    with worker(tmp_path, "wait") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        (child,) = psutil.Process(process.pid).children()
        deadline_s = time.monotonic() + 60
        while len(attempt_of(tmp_path).of(Telemetry)) < 2:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        process.kill()
        process.wait()
        child.wait(60)
        said = process.stderr.read() if process.stderr else ""
    assert said.splitlines()[-1].startswith("something killed the supervisor of this training, so its end is")
    assert "Traceback" not in said
    attempt = attempt_of(tmp_path)
    assert attempt.status is Status.LOST
    assert attempt.wall_ns >= attempt.of(Telemetry)[-1].wall_ns > 10**9, "billed to its last sign of life"
    assert all(path.suffix == ".jsonl" for path in tmp_path.iterdir())


def test_a_second_interrupt_kills_the_worker(tmp_path: Path) -> None:
    with worker(tmp_path, "wait_deaf") as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        while process.poll() is None:  # an interrupt more than a second after the first one kills it
            process.send_signal(signal.SIGINT)
            time.sleep(1.5)
        assert process.wait(60) == 130
    ended = attempt_of(tmp_path).ended
    assert ended is not None and ended.reason == "SIGINT; killed, as it was interrupted again"


DEAF_TO_CHILDREN = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(
    "prefix",
    [
        ("sh", "-c", 'exec "$0" "$@" >&- 2>&-'),
        (sys.executable, "-c", DEAF_TO_CHILDREN),
    ],
    ids=["output and errors", "ends of children"],
)
def test_closed_streams_and_ignored_signals_of_a_parent_do_no_harm(tmp_path: Path, prefix: tuple[str, ...]) -> None:
    with worker(tmp_path, "complete", prefix=prefix) as process:
        assert process.wait(60) == 0
    attempt = attempt_of(tmp_path)
    assert attempt.status is Status.COMPLETED
    assert attempt.shutdown is not None


def test_no_terminal_stops_the_worker(tmp_path: Path) -> None:
    """A worker in a background process group is stopped if it reads from the terminal, and may be if it writes."""
    worker_file = str(ROOT / "tests" / "fakes" / "worker.py")
    pid, terminal = pty.fork()
    if pid == 0:
        modes = termios.tcgetattr(0)
        modes[3] |= termios.TOSTOP
        termios.tcsetattr(0, termios.TCSANOW, modes)
        os.execv(sys.executable, [sys.executable, worker_file, str(tmp_path), "ask_the_terminal"])
    try:
        said = b""
        while b"\n" not in said:
            assert select.select([terminal], [], [], 60)[0], said
            said += os.read(terminal, 1024)
        assert b"working ''" in said
    finally:
        os.close(terminal)
        _, wait_status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(wait_status) in (0, 130), "by its own end, or by that of the terminal"
    assert attempt_of(tmp_path).ended is not None
