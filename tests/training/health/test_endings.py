"""A termination that takes over is reported, and one that belongs to learning is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_lab.training.health import Detection, Event, HealthMonitor
from tests.fakes.trainings import BUDGET, SETTINGS, check, healthy

BLOCK = 10
"""Iterations of the longest episode."""


def found(
    share: Callable[[int], float],
    success: Callable[[int], float] | None = lambda n: 0.2,
    episodes: int = 40,
    term: str = "fell",
    seed: int = 0,
    scored_from: int = 0,
) -> list[tuple[int, Detection]]:
    """Return what is found in a training where a term ends this share of the episodes, and the time-out the others."""
    watch = HealthMonitor(BUDGET, 0.9, SETTINGS, {"time_out", "stopped"}, BLOCK)
    chance = random.Random(seed)
    said = []
    for seen in healthy(seed=seed):
        ended = sum(chance.random() < share(seen.iterations) for _ in range(episodes))
        seen = replace(seen, endings={"time_out": episodes - ended, term: ended, "flew": 0})
        said += [(seen.iterations, each) for each in watch.on_iteration(seen)]
        if success is not None and seen.iterations % 10 == 0 and seen.iterations >= scored_from:
            passed = sum(chance.random() < success(seen.iterations) for _ in range(256))
            said += [(seen.iterations, each) for each in watch.on_panel(check(passed), seen.iterations)]
    return [each for each in said if each[1].event is Event.TERMINATION_TAKEOVER]


def jump(at: int, low: float = 0.2, high: float = 0.98) -> Callable[[int], float]:
    return lambda n: low if n < at else high


def test_a_takeover_is_reported_once_within_two_blocks() -> None:
    ((when, detection),) = found(jump(100))
    assert 110 < when <= 100 + 3 * BLOCK
    assert "fell ended 9" in detection.evidence and "of 400 training episodes, against 1" in detection.evidence
    assert "held-out success went from 2" in detection.evidence
    assert "env.rewards.TERM.weight" in detection.advice


@pytest.mark.parametrize(
    ("share", "success", "term"),
    [
        (lambda n: 0.98, lambda n: 0.0, "fell"),  # it always did
        (lambda n: 0.95 if n > 8 else 0.1, lambda n: 0.0, "fell"),  # episodes of random ages end by time-outs at first
        (jump(100, high=0.8), lambda n: 0.2, "fell"),  # most episodes, but not nearly all
        (jump(100, low=0.6), lambda n: 0.2, "fell"),  # it ended many before
        (lambda n: 0.98 if 100 <= n < 110 else 0.2, lambda n: 0.2, "fell"),  # one block
        (jump(100), lambda n: 0.2 if n < 100 else 0.6, "fell"),  # the policy learns all the same
        (jump(100), None, "fell"),  # nobody knows whether the policy learns
        (jump(100), lambda n: 0.2, "stopped"),  # a time-out by another name
    ],
)
def test_no_event_without_a_takeover(
    share: Callable[[int], float], success: Callable[[int], float] | None, term: str
) -> None:
    assert found(share, success, term=term) == []


@given(fall=st.integers(20, 200), width=st.floats(2, 60), seed=st.integers(0, 1000))
@settings(max_examples=30)
def test_a_robot_that_learns_not_to_fall_gives_no_event(fall: int, width: float, seed: int) -> None:
    assert found(lambda n: 0.98 if n < fall else 0.98 * 2 ** (-(n - fall) / width), lambda n: 0.0, seed=seed) == []


def test_few_episodes_are_gathered_until_they_tell_something() -> None:
    ((when, detection),) = found(jump(100), episodes=2)
    assert 200 <= when <= 260
    (episodes,) = {int(word) for word in detection.evidence.split() if word == "100"}
    assert episodes == 100
