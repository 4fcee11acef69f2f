"""Time in which a process was stopped is told apart from the phases of its work."""

from __future__ import annotations

import os
import subprocess
import sys
from time import process_time

import pytest

from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.ledger.meters.process import starved_ns
from ledger_lab.ledger.meters.suspension import Suspensions

SECOND = 1_000_000_000


class FakeTime:
    """A clock that moves when it is told to, and does something at some times."""

    def __init__(self) -> None:
        self.now = 10 * SECOND
        self.at_sleep: list[str] = []

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)
        self.at_sleep.append("slept")


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def suspensions(time: FakeTime) -> Suspensions:
    return Suspensions(time, time.sleep)


def test_a_suspension_is_its_own_phase_and_the_open_window_keeps_its_work(
    time: FakeTime, suspensions: Suspensions
) -> None:
    clock = PhaseClock(time.now, base=Phase.UNATTRIBUTED, suspended_ns=suspensions.suspended_ns, clock_ns=time)
    clock.share(1, 2)
    with clock.window(Phase.SIMULATE):
        time.sleep(2.0)
        suspensions.begin()
        time.sleep(30.0)
        suspensions.end()
        time.sleep(4.0)
        suspensions.note_awake()
    time.sleep(1.0)
    spent, wall_ns = clock.flush()
    assert spent == {
        "simulate": 3 * SECOND,
        "evaluate": 3 * SECOND,
        "suspended": 30 * SECOND,
        "unattributed": SECOND,
    }
    assert sum(spent.values()) == wall_ns == 37 * SECOND


def test_no_phase_is_negative_whatever_is_said_of_suspensions(time: FakeTime) -> None:
    clock = PhaseClock(time.now, suspended_ns=lambda since_ns: 99 * SECOND, clock_ns=time)
    time.sleep(2.0)
    assert clock.flush() == ({"suspended": 2 * SECOND}, 2 * SECOND)


def test_overlapping_notes_count_once(time: FakeTime, suspensions: Suspensions) -> None:
    since = time.now
    suspensions.begin()
    time.sleep(5.0)
    suspensions.begin()
    suspensions.end()
    suspensions.end()
    suspensions.add(since + 2 * SECOND, time.now)
    suspensions.add(since + 4 * SECOND, since + 7 * SECOND)
    time.sleep(3.0)
    suspensions.note_awake()
    assert suspensions.suspended_ns(since) == 7 * SECOND


def test_earlier_suspensions_do_not_count_again(time: FakeTime, suspensions: Suspensions) -> None:
    for _ in range(100):  # more than are kept
        suspensions.begin()
        time.sleep(1.0)
        suspensions.end()
    suspensions.note_awake()
    assert suspensions.suspended_ns(time.now) == 0
    last = time.now
    time.sleep(0.5)
    suspensions.begin()
    time.sleep(2.0)
    suspensions.end()
    suspensions.note_awake()
    assert suspensions.suspended_ns(last) == 2 * SECOND


def test_a_worker_that_was_at_work_was_not_suspended(time: FakeTime, suspensions: Suspensions) -> None:
    """Its supervisor alone was stopped: the worker passed boundaries of its windows meanwhile."""
    start = time.now
    time.sleep(60.0)
    suspensions.add(start, time.now)
    suspensions.note_awake()
    assert suspensions.suspended_ns(start + 30 * SECOND) == 0
    just_after = start + SECOND // 20  # it went on for a moment after the supervisor had noted the time
    assert suspensions.suspended_ns(just_after) == 60 * SECOND - SECOND // 20


def test_the_worker_waits_until_its_supervisor_has_noted_the_end(time: FakeTime) -> None:
    class Late(FakeTime):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if len(self.at_sleep) == 3:
                suspensions.end()
                suspensions.note_awake()

    late = Late()
    suspensions = Suspensions(late, late.sleep)
    since = late.now
    suspensions.begin()
    late.now += 10 * SECOND
    assert suspensions.suspended_ns(since) == 10 * SECOND + 3 * SECOND // 1000


def test_the_worker_waits_only_once_for_a_supervisor_that_is_gone(time: FakeTime, suspensions: Suspensions) -> None:
    time.now += 60 * SECOND
    since = time.now
    assert suspensions.suspended_ns(since) == 0
    waited = len(time.at_sleep)
    assert 0 < waited <= 501
    assert suspensions.suspended_ns(since) == 0
    assert len(time.at_sleep) == waited


def test_a_forked_process_sees_what_its_parent_notes() -> None:
    suspensions = Suspensions()
    suspensions.add(5, 9)
    suspensions.note_awake()
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.read(read, 1)
        os._exit(suspensions.suspended_ns(0))
    suspensions.add(20, 40)
    suspensions.note_awake()
    os.write(write, b"!")
    _, status = os.waitpid(pid, 0)
    os.close(read)
    os.close(write)
    assert os.waitstatus_to_exitcode(status) == 24


def test_the_wait_for_a_core_of_a_busy_machine_is_counted() -> None:
    before_ns = starved_ns()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    rivals = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        until_s = process_time() + 0.2
        while process_time() < until_s:
            pass
    finally:
        os.sched_setaffinity(0, cores)
        for rival in rivals:
            rival.kill()
            rival.wait()
    assert starved_ns() > before_ns
