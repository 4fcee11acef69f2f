"""A recipe means the same to SKRL as its own configurations do."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ledger_lab.errors import UserError
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.training.runners.skrl.dialect import DIALECT


def test_what_skrl_counts_in_timesteps_follows_the_horizon() -> None:
    config = DIALECT.translate(replace(CARTPOLE, horizon=8, max_iterations=10, save_interval=5))
    assert config["trainer"]["timesteps"] == 80
    assert config["agent"]["experiment"]["checkpoint_interval"] == 40


def test_values_are_converted_to_what_skrl_means_by_them() -> None:
    config = DIALECT.translate(replace(CARTPOLE, initial_noise_std=0.5, clip=0.3, value_clip=True))
    assert config["models"]["policy"]["initial_log_std"] == math.log(0.5)
    assert config["agent"]["value_clip"] == 0.3
    assert DIALECT.translate(replace(CARTPOLE, value_clip=False))["agent"]["value_clip"] == 0.0


def test_a_deviation_that_skrl_would_cut_down_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"SKRL limits the standard deviation of actions .* initial_noise_std, which is 8"
    ):
        DIALECT.translate(replace(CARTPOLE, initial_noise_std=8.0))
    assert DIALECT.translate(replace(CARTPOLE, initial_noise_std=7.0))


def test_both_networks_have_the_recipes_layers_and_are_separate() -> None:
    models = DIALECT.translate(replace(CARTPOLE, hidden_dims=(8, 4), activation="relu"))["models"]
    assert models["separate"]
    for role in ("policy", "value"):
        (network,) = models[role]["network"]
        assert network["layers"] == [8, 4]
        assert network["activations"] == "relu"
