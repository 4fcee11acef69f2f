"""A change of a recipe field becomes overrides in each library's own settings."""

from __future__ import annotations

import pytest

from benchmarks.recipe import Training, finding, overrides
from ledger_lab.errors import UserError
from ledger_lab.tasks.cartpole.recipe import CARTPOLE


def test_a_change_is_translated_for_each_library() -> None:
    assert overrides(CARTPOLE, "rsl_rl", "minibatches=2") == ["agent.algorithm.num_mini_batches=2"]
    assert overrides(CARTPOLE, "rl_games", "minibatches=2") == ["agent.params.config.minibatch_size_per_env=16"]
    assert overrides(CARTPOLE, "skrl", "minibatches=2") == ["agent.agent.mini_batches=2"]
    assert overrides(CARTPOLE, "rsl_rl", "learning_rate=1") == ["agent.algorithm.learning_rate=1.0"]
    assert overrides(CARTPOLE, "rl_games", "torch_compile=true") == ["agent.params.config.torch_compile=true"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("minibatch=2", "no field 'minibatch'"),
        ("minibatches", "Expecting value"),
        ("minibatches=two", "Expecting value"),
        ("minibatches=0", "minibatches 0: must be a whole number of at least 1"),
        ("minibatches=true", "minibatches of the recipe is 4"),
        ("minibatches=4", "has this value for rsl_rl already"),
        ("hidden_dims=32", "hidden_dims of the recipe is"),
        ("reward_scale=0.5", "RSL-RL trains with reward_scale=1.0 only"),
    ],
)
def test_invalid_changes_are_refused(change: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        overrides(CARTPOLE, "rsl_rl", change)


def training(change: str, number: int, loop_ms: float, to_target_s: float | None) -> Training:
    return Training(
        change=change, round=number, wall_s=9.0, to_target_s=to_target_s, compile_s=1.0, loop_ms=loop_ms, update_ms=1.0
    )


def test_ratios_are_taken_within_a_round() -> None:
    trainings = [
        training("as it is", 1, 10.0, 5.0),
        training("as it is", 2, 20.0, 8.0),
        training("as it is", 3, 30.0, 9.0),
    ]
    trainings += [training("x", 1, 5.0, 6.0), training("x", 2, 20.0, None), training("x", 3, 60.0, 9.0)]
    found = finding(trainings, "x")
    assert found["loop_ms"] == 20.0
    assert found["loop_ms_ratio"] == [0.5, 1.0, 2.0]
    assert (found["to_target_s"], found["to_target_is_exact"]) == (9.0, True)
    assert found["to_target_s_ratio"] is None
    never = [*trainings[:3], *(training("x", number, 5.0, None) for number in (1, 2, 3))]
    assert finding(never, "x")["to_target_s"] is None
    assert finding(trainings, "as it is")["to_target_s_ratio"] == [1.0, 1.0, 1.0]
