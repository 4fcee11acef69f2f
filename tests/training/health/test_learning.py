"""Detectors over figures of updates: each reports its own problem once, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_lab.training.health import Event, HealthMonitor, Iteration, Settings
from tests.fakes.trainings import BUDGET, detections, healthy, monitor, told


def changed(stream: Iterator[Iteration], **figures: Callable[[int, float], float]) -> Iterator[Iteration]:
    """Yield the stream with figures replaced by functions of iteration and value."""
    for seen in stream:
        new = {name: change(seen.iterations, seen.figures[name]) for name, change in figures.items()}
        yield replace(seen, figures={**seen.figures, **new})


def between(first: int, last: int, factor: float) -> Callable[[int, float], float]:
    """Multiply in some iterations."""
    return lambda n, value: value * factor if first <= n < last else value


@pytest.mark.parametrize("seed", range(20))
def test_a_good_training_gives_no_event(seed: int) -> None:
    assert told(healthy(seed=seed)) == []


@pytest.mark.parametrize("first", [150, 380])
def test_a_good_training_resumed_at_any_iteration_gives_no_event(first: int) -> None:
    assert told(healthy(first=first)) == []


@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 50))
@settings(max_examples=25)
def test_the_scale_of_the_rewards_does_not_matter(scale: float, seed: int) -> None:
    stream = changed(
        healthy(iterations=200, seed=seed),
        mean_return=lambda _, value: value * scale,
        value_loss=lambda _, value: value * scale**2,
        grad_norm=lambda _, value: value * scale,
    )
    assert told(stream) == []


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["value_loss", "action_std", "entropy", "kl", "grad_norm", "mean_return", "learning_rate"]),
            st.floats(allow_nan=True, allow_infinity=True),
        ),
        max_size=60,
    )
)
@settings(max_examples=50)
def test_any_stream_of_figures_is_accepted_and_only_non_finite_ones_are_reported(
    streams: list[dict[str, float]],
) -> None:
    seen = (Iteration(iterations=n, env_steps=1, figures=each, phase_ns={}) for n, each in enumerate(streams, start=1))
    said = detections(seen)
    spoiled = any(not math.isfinite(value) for each in streams for value in each.values())
    assert (Event.NON_FINITE in {found.event for _, found in said}) == spoiled
    assert all(found.evidence and found.advice for _, found in said)


def test_a_non_finite_figure_is_reported_at_once_and_only_once() -> None:
    stream = changed(healthy(100), value_loss=lambda n, value: math.nan if 40 <= n < 60 else value)
    ((when, found),) = detections(stream)
    assert (when, found.event, found.evidence) == (40, Event.NON_FINITE, "value_loss not finite")


def test_a_librarys_error_about_a_non_finite_number_is_reported_once() -> None:
    watch = monitor()
    (found,) = watch.on_failure("observations contain NaN values")
    assert (found.event, found.evidence) == (Event.NON_FINITE, "observations contain NaN values")
    assert watch.on_failure("observations contain NaN values") == []


def test_an_exploding_value_loss_is_reported_once() -> None:
    stream = changed(healthy(300), value_loss=lambda n, value: value * 1.5 ** max(n - 150, 0))
    ((when, found),) = detections(stream)
    assert found.event is Event.VALUE_LOSS_EXPLOSION and 150 < when < 190
    assert "agent.algorithm.learning_rate" in found.advice and "value loss" in found.evidence


def test_collapsing_action_noise_is_reported_once() -> None:
    stream = changed(healthy(100), action_std=lambda n, _: max(0.7**n, 1e-3))
    ((when, found),) = detections(stream)
    assert found.event is Event.ENTROPY_COLLAPSE and when < 10
    assert "agent.algorithm.entropy_coef" in found.advice


SAC = Settings(
    {"replay_steps": "memory", "initial_entropy_coef": "alpha", "learning_rate": "rate"},
    value_scale=10.0,
    entropy_target=-1.0,
)
TD3 = Settings({"replay_steps": "memory", "exploration_noise": "noise", "learning_rate": "rate"})


def off_policy(names: Settings = SAC) -> HealthMonitor:
    """Return the monitor of a training with a replay memory."""
    return HealthMonitor(BUDGET, 0.9, names)


def test_noise_that_stays_far_below_what_sac_aims_at_is_a_collapse() -> None:
    ((when, found),) = detections(changed(healthy(100), action_std=lambda *_: 0.02), off_policy())
    assert (when, found.event) == (10, Event.ENTROPY_COLLAPSE)
    assert found.evidence == "standard deviation of the actions 0.02, while SAC aims at 0.089"
    assert found.advice.startswith("raise alpha, or lower rate (now ")


def test_a_loss_far_above_small_returns_is_no_explosion_with_a_replay_memory() -> None:
    def small(stream: Iterator[Iteration]) -> Iterator[Iteration]:
        return changed(stream, mean_return=lambda _, value: 1e-4 * value, value_loss=lambda *_: 1.0)

    assert (3, Event.VALUE_LOSS_EXPLOSION) in told(small(healthy(100)))
    assert detections(small(healthy(100)), off_policy()) == []


def test_a_loss_that_diverges_is_an_explosion_with_a_replay_memory() -> None:
    ((when, found),) = detections(changed(healthy(100), value_loss=lambda n, _: 1.5**n), off_policy())
    assert found.event is Event.VALUE_LOSS_EXPLOSION and 10 < when < 50
    assert found.advice == (
        f"lower rate (now {found.advice.split('now ')[1].split(')')[0]}), polyak or updates_per_step, "
        "or scale the rewards down"
    )


def test_a_collapse_is_detected_from_entropy_alone() -> None:
    actions = 8
    plain = ({k: v for k, v in seen.figures.items() if k != "action_std"} for seen in healthy(100))
    stream = (
        Iteration(
            iterations=n,
            env_steps=1,
            figures={**each, "entropy": actions * (1.42 + math.log(max(0.7**n, 1e-3)))},
            phase_ns={},
        )
        for n, each in enumerate(plain, start=1)
    )
    assert [event for _, event in told(stream)] == [Event.ENTROPY_COLLAPSE]


def test_an_intermittent_problem_is_reported_once() -> None:
    stream = changed(healthy(200), kl=lambda n, value: 3.0 if 50 <= n < 150 and n % 8 < 4 else value)
    assert len(told(stream)) == 1


def test_an_update_without_effect_is_reported() -> None:
    ((when, found),) = detections(changed(healthy(60), kl=lambda *_: 1e-9))
    assert (when, found.event) == (20, Event.KL_OUT_OF_RANGE)
    assert found.advice.startswith("raise agent.algorithm.learning_rate")


def test_repeated_gradient_spikes_are_reported_once() -> None:
    stream = changed(healthy(200), grad_norm=lambda n, value: value * 1e3 if n > 100 and n % 3 == 0 else value)
    ((when, found),) = detections(stream)
    assert found.event is Event.GRADIENT_SPIKES and 100 < when <= 110
    assert found.evidence.startswith("3 of 10 iterations")


@pytest.mark.parametrize(
    "figures",
    [
        pytest.param({"value_loss": between(150, 151, 1e4)}, id="one bad batch"),
        pytest.param({"value_loss": between(150, 170, 50.0)}, id="a policy stumbles: the loss is as high as at first"),
        pytest.param({"value_loss": lambda n, value: value * 1.01**n}, id="a loss grows as slowly as returns do"),
        pytest.param(
            {
                "mean_return": lambda n, _: 0.0 if n < 150 else 10.0 * (1 - 0.95 ** (n - 150)),
                "value_loss": lambda n, _: 1e-6 if n < 150 else 30.0,
            },
            id="a late reward",
        ),
        pytest.param({"kl": between(50, 52, 1e3)}, id="two large updates"),
        pytest.param({"kl": between(50, 60, 1e-6)}, id="ten small updates"),
        pytest.param({"grad_norm": between(100, 102, 1e4)}, id="two large gradients"),
        pytest.param({"grad_norm": lambda n, value: value * 1.03**n}, id="gradients grow slowly"),
        pytest.param({"grad_norm": between(1, 5, 1e4)}, id="gradients before it has warmed up"),
    ],
)
def test_figures_of_good_trainings_give_no_event(figures: dict[str, Callable[[int, float], float]]) -> None:
    assert told(changed(healthy(300), **figures)) == []
