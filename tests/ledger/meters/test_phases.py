"""Phases are exclusive and sum to wall-clock exactly."""

from __future__ import annotations

import random

import pytest

from ledger_lab.ledger.meters.phases import Phase, PhaseClock


class FakeTime:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000

    def __call__(self) -> int:
        return self.now

    def sleep(self, nanoseconds: int) -> None:
        self.now += nanoseconds


def test_an_inner_window_subtracts_from_its_parent() -> None:
    time = FakeTime()
    clock = PhaseClock(400, clock_ns=time)
    with clock.window(Phase.MANAGE):
        time.sleep(10)
        with clock.window(Phase.SIMULATE):
            time.sleep(70)
        time.sleep(5)
    assert clock.flush() == ({"startup": 600, "manage": 15, "simulate": 70}, 685)


def test_the_held_out_slots_share_of_steps_counts_as_evaluation() -> None:
    time = FakeTime()
    clock = PhaseClock(1000, base=Phase.UNATTRIBUTED, clock_ns=time)
    for held_out, slots in ((256, 1024), (0, 1), (1, 1)):
        clock.share(held_out, slots)
        for phase in (Phase.SIMULATE, Phase.MANAGE, Phase.LEARN):
            with clock.window(phase):
                time.sleep(101)
    spent, wall_ns = clock.flush()
    assert spent == {"evaluate": 2 * 25 + 2 * 101, "simulate": 76 + 101, "manage": 76 + 101, "learn": 303}
    assert sum(spent.values()) == wall_ns


def test_unwinding_closes_windows_that_an_exception_left_open() -> None:
    time, lost = FakeTime(), False

    def synchronize() -> None:
        assert not lost, "a device that is lost is not waited for"

    clock = PhaseClock(1000, clock_ns=time, synchronize=synchronize)
    clock.open(Phase.MANAGE)
    clock.open(Phase.SIMULATE)
    time.sleep(5)
    lost = True
    clock.unwind(Phase.SHUTDOWN)
    time.sleep(7)
    assert clock.flush() == ({"simulate": 5, "shutdown": 7}, 12)
    assert clock.base is Phase.SHUTDOWN


def test_windows_close_when_the_code_inside_fails() -> None:
    time = FakeTime()
    clock = PhaseClock(1000, clock_ns=time)

    def fails() -> None:
        time.sleep(9)
        raise ValueError

    with pytest.raises(ValueError):
        clock.wrap(fails, Phase.LEARN)()
    time.sleep(1)
    assert clock.flush()[0] == {"learn": 9, "startup": 1}
    with pytest.raises(RuntimeError, match="no phase window"):
        clock.close()


def test_any_nesting_sums_to_wall_clock_over_any_flushes() -> None:
    random.seed(3)
    time = FakeTime()
    clock = PhaseClock(1000, clock_ns=time)
    total, depth, wall = 0, 0, 0
    for _ in range(2000):
        time.sleep(random.randrange(100))
        if depth and random.random() < 0.5:
            clock.close()
            depth -= 1
        else:
            clock.open(random.choice(list(Phase)))
            depth += 1
        if random.random() < 0.1:
            spent, wall = clock.flush()
            total += sum(spent.values())
            assert total == wall
    assert wall > 0


def test_synchronized_mode_waits_at_every_boundary() -> None:
    waits: list[None] = []
    clock = PhaseClock(0, synchronize=lambda: waits.append(None))
    with clock.window(Phase.LEARN):
        assert len(waits) == 1
    assert len(waits) == 2


def test_listeners_are_called_inside_the_window() -> None:
    ticks = iter(range(100))
    clock, heard = PhaseClock(0, clock_ns=lambda: next(ticks)), []
    clock.announce(lambda phase: heard.append(f"+{phase}"), lambda: heard.append("-"))
    step = clock.wrap(lambda: heard.append("step"), Phase.MANAGE)
    with clock.window(Phase.LEARN):
        step()
    assert heard == ["+learn", "+manage", "step", "-", "-"]
    assert clock.flush()[0] == {"startup": 1, "learn": 2, "manage": 1}
