"""A recipe means the same to rl_games as its own configurations do."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ledger_lab.errors import UserError
from ledger_lab.tasks.cartpole.recipe import CARTPOLE
from ledger_lab.training.runners.rl_games.dialect import DIALECT


def test_values_are_converted_to_what_rl_games_means_by_them() -> None:
    params = DIALECT.translate(replace(CARTPOLE, initial_noise_std=0.5, value_coef=0.7))["params"]
    assert params["network"]["space"]["continuous"]["sigma_init"]["val"] == math.log(0.5)
    assert params["config"]["critic_coef"] == 1.4, "the library halves it"


def test_minibatches_are_environment_steps_so_that_their_number_does_not_hang_on_the_environments() -> None:
    config = DIALECT.translate(replace(CARTPOLE, horizon=24, minibatches=8))["params"]["config"]
    assert config["minibatch_size_per_env"] == 3
    assert "minibatch_size" not in config
    with pytest.raises(UserError, match="a horizon that is a multiple of minibatches, and 24 is not a multiple of 5"):
        DIALECT.translate(replace(CARTPOLE, horizon=24, minibatches=5))


def test_neither_the_training_return_nor_a_clipped_action_changes_a_training() -> None:
    config = DIALECT.translate(CARTPOLE)["params"]["config"]
    assert "score_to_win" not in config
    assert config["clip_actions"] is False
    assert config["bounds_loss_coef"] == 0.0


def test_both_networks_have_the_recipes_layers_and_are_separate() -> None:
    network = DIALECT.translate(replace(CARTPOLE, hidden_dims=(8, 4), activation="relu"))["params"]["network"]
    assert network["separate"]
    assert (network["mlp"]["units"], network["mlp"]["activation"]) == ([8, 4], "relu")
