"""Detectors over held-out results."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_lab.training.health import Event, HealthMonitor, Iteration
from ledger_lab.training.health.held_out import Check, RewardHacking
from tests.fakes.trainings import BUDGET, SETTINGS, check, healthy, monitor


def judged(
    success: Callable[[int], float],
    returned: Callable[[int], float] | None = None,
    every: int = 10,
    watch: HealthMonitor | None = None,
    seed: int = 0,
) -> list[tuple[int, Event]]:
    """Return the detections of a training whose policies have these success rates, scored while training goes on."""
    watch, chance = watch or monitor(), random.Random(seed)
    said = []
    for seen in _returning(healthy(seed=seed), returned, chance):
        said += [(seen.iterations, found.event) for found in watch.on_iteration(seen)]
        if seen.iterations % every == 0 and seen.iterations > every:
            saved = seen.iterations - every
            passed = sum(chance.random() < success(saved) for _ in range(256))
            said += [(seen.iterations, found.event) for found in watch.on_panel(check(passed), saved)]
    return said


def _returning(
    stream: Iterator[Iteration], returned: Callable[[int], float] | None, chance: random.Random
) -> Iterator[Iteration]:
    """Yield the stream with another return."""
    for seen in stream:
        if returned is not None:
            mean = returned(seen.iterations) + chance.gauss(0, 0.1)
            seen = replace(seen, figures={**seen.figures, "mean_return": mean})
        yield seen


def sigmoid(n: int, middle: float, width: float = 12.0) -> float:
    return 1 / (1 + math.exp(-(n - middle) / width))


# What passes the middle in the last quarter of the budget may be taken for too late: a forecast from scores that chance
# has a part in.
@given(middle=st.integers(20, 280), every=st.sampled_from([5, 10, 25]), seed=st.integers(0, 1000))
@settings(max_examples=30)
def test_a_training_that_learns_late_but_in_time_gives_no_event(middle: int, every: int, seed: int) -> None:
    said = judged(lambda n: 0.97 * sigmoid(n, middle), lambda n: 10 * sigmoid(n, middle - 20, 25), every, seed=seed)
    assert said == []


def test_a_rising_return_with_falling_success_is_reported_once() -> None:
    ((when, event),) = judged(lambda n: 0.95 if n < 150 else 0.3, lambda n: n / 40)
    assert event is Event.REWARD_HACKING
    assert 150 < when <= 190


def watched(policies: list[list[bool]], cells: int = 1) -> list[Event]:
    """Return the detections of checks on the same seeds, while the return rises."""
    rule, said = RewardHacking(SETTINGS), []
    seeds = tuple(range(len(policies[0]) // cells)) * cells
    for number, success in enumerate(policies, start=1):
        returns = [float(n) for n in range(number + 1)]
        found = rule.look(Check(number, tuple(success), seeds, (float(number),)), returns)
        said += [] if found is None else [found.event]
    return said


def test_cells_of_a_seed_do_not_count_as_independent_episodes() -> None:
    best = [True] * 22 + [False] * 10
    worse = [False] * 12 + [True] * 4 + [False] * 6 + [True] * 10
    assert (sum(best) - sum(worse)) / 32 == 0.25
    assert watched([best * 9, worse * 9, worse * 9], cells=9) == [], "18 seeds got worse and 10 better"
    assert watched([[*best * 9], [False] * 288, [False] * 288], cells=9) == [Event.REWARD_HACKING]


def test_the_same_seeds_show_a_fall_that_independent_episodes_would_not_show() -> None:
    best, worse = [True] * 170 + [False] * 86, [True] * 128 + [False] * 128
    assert watched([best, worse, worse]) == [Event.REWARD_HACKING], "42 seeds got worse and none better"


def test_steady_policies_are_not_reported_however_many_are_checked() -> None:
    chance = random.Random(3)
    for _ in range(20):
        assert watched([[chance.random() < 0.5 for _ in range(64)] for _ in range(100)]) == []


def test_the_evidence_of_reward_hacking_names_both_policies() -> None:
    watch = monitor()
    for seen in _returning(healthy(100), lambda n: n / 10, random.Random(0)):
        watch.on_iteration(seen)
    assert watch.on_panel(check(240), 20) == []
    assert watch.on_panel(check(120), 60) == []
    (found,) = watch.on_panel(check(100), 80)
    assert "from 240/256 at iteration 20 to 100/256 at iteration 80" in found.evidence
    assert "rose from" in found.evidence and "policy of iteration 20" in found.advice


@pytest.mark.parametrize(
    ("success", "returned"),
    [
        pytest.param(lambda n: 0.95 if n < 150 else 0.88, lambda n: n / 40, id="a little worse"),
        pytest.param(lambda n: 0.3 if n == 200 else 0.95, lambda n: n / 40, id="one bad policy"),
        pytest.param(lambda n: 0.95 if not 150 < n < 250 else 0.5, lambda n: 5 - abs(n - 150) / 40, id="both fall"),
        pytest.param(lambda n: 0.95 if not 150 < n < 250 else 0.5, lambda n: 5.0, id="the return stays"),
    ],
)
def test_ordinary_successes_give_no_event(success: Callable[[int], float], returned: Callable[[int], float]) -> None:
    assert judged(success, returned) == []


def test_a_training_without_progress_is_reported_at_half_its_budget() -> None:
    ((when, event),) = judged(lambda n: 0.02, lambda n: 1.0)
    assert (when, event) == (BUDGET // 2, Event.NO_CONVERGENCE)


@pytest.mark.parametrize(
    "success",
    [
        pytest.param(lambda n: 0.0028 * n, id="slowly but in time"),
        pytest.param(lambda n: 0.89, id="close enough for luck"),
        pytest.param(lambda n: 0.97 * sigmoid(n, 60), id="long there"),
    ],
)
def test_sufficient_paces_give_no_event(success: Callable[[int], float]) -> None:
    assert judged(success) == []


def test_only_valid_checks_count() -> None:
    watch = monitor()
    for seen in healthy():
        watch.on_iteration(seen)
    for iteration in range(200, 400, 20):
        assert watch.on_panel(replace(check(0), purpose="proof"), iteration) == []
        assert watch.on_panel(replace(check(0), invalid="contacts were lost"), iteration) == []
