"""Times of a device with a queue: what phases show when kernels finish after their launch."""

from __future__ import annotations

import random

import pytest

from ledger_lab.ledger.meters.phases import Phase, PhaseClock
from ledger_lab.ledger.meters.suspension import Suspensions
from tests.fakes.queued_device import QueuedDevice

_MS = 1_000_000


def train(clock: PhaseClock, device: QueuedDevice, steps: int = 24) -> None:
    """Run an iteration: physics takes 94 % of the device's time, and the held-out slots wait once per step."""
    for _ in range(steps):
        with clock.window(Phase.SIMULATE):
            device.launch(89 * _MS, launch_ns=5 * _MS)
        with clock.window(Phase.EVALUATE):
            device.launch(6 * _MS, launch_ns=_MS)
            device.synchronize()


def shares(clock: PhaseClock) -> dict[str, float]:
    spent, _ = clock.flush()
    whole_ns = sum(spent.values())
    return {phase: spent_ns / whole_ns for phase, spent_ns in spent.items()}


def test_the_host_takes_physics_for_evaluation_and_marks_show_the_truth() -> None:
    device = QueuedDevice()
    clock = PhaseClock(0, base=Phase.UNATTRIBUTED, clock_ns=device)
    train(clock, device)
    assert shares(clock) == pytest.approx({"simulate": 0.05, "evaluate": 0.95}, abs=0.001)

    clock.follow(device)
    train(clock, device)
    assert shares(clock) == pytest.approx({"simulate": 0.94, "evaluate": 0.06}, abs=0.001)


def test_the_time_of_a_slow_host_counts_where_the_host_was() -> None:
    device = QueuedDevice()
    clock = PhaseClock(0, clock_ns=device)
    clock.follow(device)
    with clock.window(Phase.LOG):
        device.work(30 * _MS)
    with clock.window(Phase.LEARN):
        device.launch(_MS)
        device.work(9 * _MS)
    assert clock.flush() == ({"log": 30 * _MS, "learn": 9 * _MS}, 39 * _MS)
    assert clock.flush_device_bound() == {}, "the host was the bound"


def test_a_phase_says_how_much_of_it_the_device_bounds() -> None:
    device = QueuedDevice()
    clock = PhaseClock(0, clock_ns=device)
    assert clock.flush_device_bound() is None, "not measured is not zero"
    clock.follow(device)
    clock.share(1, 4)
    with clock.window(Phase.SIMULATE):
        device.launch(8 * _MS)
    with clock.window(Phase.LOG):
        device.work(20 * _MS)
    assert clock.flush()[0] == {"simulate": 6 * _MS, "evaluate": 2 * _MS, "log": 12 * _MS}
    assert clock.flush_device_bound() == {"simulate": 6 * _MS, "evaluate": 2 * _MS}
    assert clock.flush_device_bound() == {}


def test_phases_sum_to_wall_clock_exactly() -> None:
    random.seed(5)
    device = QueuedDevice(now_ns=1000)
    clock = PhaseClock(400, clock_ns=device)
    clock.follow(device)
    total, depth, wall = 0, 0, 0
    for _ in range(3000):
        random.choice((device.work, device.launch))(random.randrange(100))
        device.capturing = random.random() < 0.05
        if depth and random.random() < 0.5:
            clock.close()
            depth -= 1
        else:
            clock.open(random.choice(list(Phase)))
            depth += 1
        device.capturing = False
        if random.random() < 0.02:
            device.synchronize()
        if random.random() < 0.05:
            clock.share(random.randrange(3), 4)
        if random.random() < 0.1:
            spent, wall = clock.flush()
            assert min(spent.values()) > 0
            total += sum(spent.values())
            assert total == wall
    assert wall > 0


def test_a_window_without_a_mark_shares_the_time_between_its_neighbours_like_the_host() -> None:
    device = QueuedDevice()
    clock = PhaseClock(0, base=Phase.UNATTRIBUTED, clock_ns=device)
    clock.follow(device)
    device.launch(6 * _MS)
    clock.open(Phase.MANAGE)
    device.work(_MS)
    device.capturing = True
    clock.open(Phase.COMPILE)
    device.work(3 * _MS)
    device.capturing = False
    clock.close()
    clock.close()
    device.work(6 * _MS)
    assert clock.flush() == ({"unattributed": 10 * _MS}, 10 * _MS), "the queue was full until then"


def test_the_clock_waits_for_no_device_that_fails() -> None:
    class Lost(QueuedDevice):
        def wait(self, mark: object) -> None:
            raise RuntimeError("unspecified launch failure")

    device = QueuedDevice()
    clock = PhaseClock(0, base=Phase.UNATTRIBUTED, clock_ns=device)
    clock.follow(device)
    with clock.window(Phase.SIMULATE):
        device.launch(9 * _MS, launch_ns=2 * _MS)
    device.__class__ = Lost
    with pytest.raises(RuntimeError, match="launch failure"):
        clock.flush()
    clock.unwind(Phase.SHUTDOWN)
    device.work(_MS)
    assert clock.flush() == ({"simulate": 2 * _MS, "shutdown": _MS}, 3 * _MS)


def test_a_lost_device_is_not_asked_again() -> None:
    device = QueuedDevice()
    clock = PhaseClock(0, base=Phase.UNATTRIBUTED, clock_ns=device)
    clock.follow(device)
    clock.open(Phase.SIMULATE)
    device.launch(1000 * _MS, launch_ns=3 * _MS)
    waits = device.waits
    clock.unwind(Phase.SHUTDOWN)
    device.work(2 * _MS)
    assert clock.flush() == ({"simulate": 3 * _MS, "shutdown": 2 * _MS}, 5 * _MS)
    assert device.waits == waits


def test_settled_times_survive_the_end_of_the_measurement() -> None:
    device = QueuedDevice()
    clock = PhaseClock(0, base=Phase.EVALUATE, clock_ns=device)
    clock.follow(device)
    with clock.window(Phase.SIMULATE):
        device.launch(9 * _MS)
    clock.settle()
    clock.unwind(Phase.SHUTDOWN)
    assert clock.flush() == ({"simulate": 9 * _MS}, 9 * _MS)


@pytest.mark.parametrize("queued_ns", [0, 200 * _MS])
def test_a_suspension_is_left_out_of_the_window_in_which_the_device_was_idle(queued_ns: int) -> None:
    device = QueuedDevice()
    suspensions = Suspensions(device)
    clock = PhaseClock(device(), base=Phase.UNATTRIBUTED, suspended_ns=suspensions.suspended_ns, clock_ns=device)
    clock.follow(device)
    clock.share(1, 2)
    with clock.window(Phase.LEARN):
        device.launch(queued_ns)
    with clock.window(Phase.SIMULATE):
        device.now_ns += 500 * _MS
        suspensions.begin()
        device.now_ns += 30_000 * _MS
        suspensions.end()
        suspensions.note_awake()
        device.now_ns += 500 * _MS
    spent, wall_ns = clock.flush()
    assert spent["suspended"] == 30_000 * _MS
    assert spent["simulate"] == spent["evaluate"] == (1_000 * _MS - queued_ns) // 2
    assert spent.get("learn", 0) == queued_ns
    assert sum(spent.values()) == wall_ns
    assert clock.flush_device_bound() == ({"learn": queued_ns} if queued_ns else {})
