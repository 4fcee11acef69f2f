"""Detectors over time and memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from ledger_lab.training.health import Event, Iteration
from tests.fakes.trainings import MB, detections, healthy, told


def slower(stream: Iterator[Iteration], factor: Callable[[int, str], float]) -> Iterator[Iteration]:
    """Yield the stream with its phases stretched."""
    for seen in stream:
        stretched = {phase: round(ns * factor(seen.iterations, phase)) for phase, ns in seen.phase_ns.items()}
        yield replace(seen, phase_ns=stretched)


def test_growing_step_times_are_reported_once_with_their_phase() -> None:
    stream = slower(healthy(300), lambda n, phase: 1 + n / 50 if phase == "manage" else 1.0)
    ((when, found),) = detections(stream)
    assert found.event is Event.SLOWDOWN and 100 < when < 250
    assert "most of it is manage" in found.evidence and "what the phase manage keeps" in found.advice


def test_a_slowdown_of_all_phases_is_blamed_on_the_machine() -> None:
    ((_, found),) = detections(slower(healthy(200), lambda n, _: 3.0 if n > 100 else 1.0))
    assert "all phases alike" in found.evidence and "other programs" in found.advice


@pytest.mark.parametrize(
    "factor",
    [
        pytest.param(lambda n, _: 8.0 if 100 <= n < 104 else 1.0, id="a moment"),
        pytest.param(lambda n, _: 1.3 if n > 100 else 1.0, id="a third"),
        pytest.param(lambda n, phase: 20.0 if phase == "evaluate" else 1.0, id="scoring is no training"),
        pytest.param(lambda n, _: 30.0 if n <= 1 else 1.0, id="warming up"),
        pytest.param(lambda n, _: 1 / n, id="it gets faster"),
    ],
)
def test_ordinary_times_give_no_event(factor: Callable[[int, str], float]) -> None:
    assert told(slower(healthy(300), factor)) == []


def test_short_iterations_must_be_slow_for_a_minute() -> None:
    brief = slower(healthy(400), lambda n, _: 0.1 if n < 200 else 0.5)  # 0.35 s, then 1.75 s
    assert [event for _, event in told(brief)] == [Event.SLOWDOWN]
    briefer = slower(healthy(400), lambda n, _: 0.004 if n < 200 else 0.02)  # 14 s
    assert told(briefer) == []


FULL_AT = 200
"""Iteration at which the replay memory of :func:`filling` is full."""


def filling(sample_ns: Callable[[float], float], iterations: int = 300) -> Iterator[Iteration]:
    """Yield a training whose time to draw from the replay memory depends on how full it is."""
    for seen in healthy(iterations):
        fill = min(1.0, seen.iterations / FULL_AT)
        phase_ns = {**seen.phase_ns, "replay_write": 10_000_000, "replay_sample": round(sample_ns(fill))}
        yield replace(seen, phase_ns=phase_ns, figures={**seen.figures, "replay_fill": fill})


def test_a_replay_memory_that_the_system_swaps_is_a_slowdown() -> None:
    stream = filling(lambda fill: 1e8, 500)
    late = slower(stream, lambda n, phase: 40.0 if phase == "replay_sample" and n > 300 else 1.0)
    ((_, found),) = detections(late)
    assert found.event is Event.SLOWDOWN and "most of it is replay_sample" in found.evidence
    assert "swapped" in found.advice


def held(memory: Callable[[int], float], iterations: int = 400) -> Iterator[Iteration]:
    """Yield a training that holds so much host memory."""
    return (replace(seen, host_memory_bytes=round(memory(seen.iterations))) for seen in healthy(iterations))


def test_a_leak_is_reported_once_with_its_forecast() -> None:
    ((when, found),) = detections(held(lambda n: 2000 * MB + n * 2 * MB))
    assert found.event is Event.HOST_MEMORY_GROWTH and when < 200
    assert "2 MB each" in found.evidence and "2.78 GB at the end" in found.evidence


def test_a_slow_leak_is_reported_later_and_a_fast_leak_once() -> None:
    ((when, found),) = detections(held(lambda n: 2000 * MB + n * 0.3 * MB, 1200))
    assert found.event is Event.HOST_MEMORY_GROWTH and 480 < when < 700
    assert "in 480 iterations, 0.3 MB each" in found.evidence
    slower = told(held(lambda n: 2000 * MB + n * 0.07 * MB, 4000))
    assert [event for _, event in slower] == [Event.HOST_MEMORY_GROWTH] and slower[0][0] > 1900
    fast = told(held(lambda n: 2000 * MB + n * 2 * MB, 3000))
    assert [event for _, event in fast] == [Event.HOST_MEMORY_GROWTH] and fast[0][0] < 200
    assert told(healthy(4000)) == []


def test_late_leaks_and_device_leaks_are_reported() -> None:
    late = told(held(lambda n: 2000 * MB + max(n - 200, 0) * 3 * MB))
    assert [event for _, event in late] == [Event.HOST_MEMORY_GROWTH] and late[0][0] > 200
    device = (replace(seen, device_memory_bytes=seen.iterations * 10 * MB) for seen in healthy())
    assert [event for _, event in told(device)] == [Event.DEVICE_MEMORY_GROWTH]


@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(lambda n: 2000 * MB + n * 0.3 * MB, id="a log that grows a little"),
        pytest.param(lambda n: 4000 * MB * (1 - 0.98**n), id="warming up"),
        pytest.param(lambda n: 2000 * MB + (500 * MB if n > 100 else 0), id="one more buffer"),
        pytest.param(lambda n: 2000 * MB + n % 100 * 10 * MB, id="a cache that is emptied"),
        pytest.param(lambda n: 2000 * MB + random.Random(n).uniform(0, 1000) * MB, id="noise"),
        pytest.param(lambda n: 4000 * MB - n * MB, id="it falls"),
    ],
)
def test_ordinary_memory_gives_no_event(memory: Callable[[int], float]) -> None:
    assert told(held(memory)) == []
