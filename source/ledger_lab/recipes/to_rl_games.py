"""Translation of a recipe to the configuration of rl_games."""

from __future__ import annotations

import math
from typing import Any

from ledger_lab.errors import UserError
from ledger_lab.recipes.dialect import Dialect, Setting
from ledger_lab.recipes.ppo import DEFAULT_SEED, PpoRecipe
from ledger_lab.recipes.rules import anything, finite, one_of, widths

_SCHEDULES = ("adaptive", "linear", "constant", "fixed", "identity", "None", None)
"""Accepted names of schedules: those that the library implements, and those that its own and Isaac Lab's configurations
use for a constant rate. The library itself takes every other name, even a misspelt name, as constant."""


def _widths(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Accept layer widths, or an empty list."""
    return None if value == [] else widths(value)


RL_GAMES = Dialect(
    library="rl_games",
    title="rl_games",
    settings={
        "experiment_name": Setting("agent.params.config.name"),
        "max_iterations": Setting("agent.params.config.max_epochs"),
        "save_interval": Setting("agent.params.config.save_frequency", rule=anything),
        "horizon": Setting("agent.params.config.horizon_length"),
        "epochs": Setting("agent.params.config.mini_epochs"),
        "minibatches": Setting(
            "agent.params.config.minibatch_size_per_env", "`horizon` ÷ `minibatches`", rule=anything
        ),
        "hidden_dims": Setting("agent.params.network.mlp.units", "for both networks", rule=_widths),
        "activation": Setting("agent.params.network.mlp.activation", "for both networks"),
        "observation_normalization": Setting("agent.params.config.normalize_input"),
        "value_normalization": Setting("agent.params.config.normalize_value"),
        "learning_rate": Setting("agent.params.config.learning_rate"),
        "schedule": Setting("agent.params.config.lr_schedule", "`adaptive` or `constant`", rule=one_of(*_SCHEDULES)),
        "kl_target": Setting("agent.params.config.kl_threshold"),
        "clip": Setting("agent.params.config.e_clip"),
        "value_clip": Setting("agent.params.config.clip_value"),
        "value_coef": Setting("agent.params.config.critic_coef", "doubled"),
        "entropy_coef": Setting("agent.params.config.entropy_coef"),
        "max_grad_norm": Setting("agent.params.config.grad_norm"),
        "discount": Setting("agent.params.config.gamma"),
        "gae_lambda": Setting("agent.params.config.tau"),
        "timeout_bootstrap": Setting("agent.params.config.value_bootstrap"),
        "reward_scale": Setting("agent.params.config.reward_shaper.scale_value"),
        "initial_noise_std": Setting(
            "agent.params.network.space.continuous.sigma_init.val", "its logarithm", rule=finite
        ),
        "mixed_precision": Setting("agent.params.config.mixed_precision"),
        "torch_compile": Setting("agent.params.config.torch_compile"),
    },
    only={},
    differences={
        "schedule": "after each gradient step, by the KL divergence of the minibatch's distributions from those of its "
        "last step, within 1e-6..1e-2",
        "minibatches": "each has the same environments every time, in order",
        "value_clip": "the larger of the clipped and the unclipped loss",
        "max_grad_norm": "of both networks together",
        "observation_normalization": "updated in the first epoch of each policy update, clipped at ±5",
        "initial_noise_std": "the logarithm of the standard deviation is learned",
        "timeout_bootstrap": "with the value of the last observation that the policy acted on",
        "mixed_precision": "bfloat16, in the update, only on a GPU",
        "torch_compile": "off by default; the library's own default is on",
        "save_interval": "at multiples of it",
        "first episodes": "have their full length",
        "value function": "gets the observations of the policy",
        "first weights": "biases are zero",
    },
)


def to_rl_games(recipe: PpoRecipe) -> dict[str, Any]:
    """Translate a recipe to the configuration of rl_games' runner (rl-games 1.6).

    Args:
        recipe: The recipe.

    Returns:
        Nested dictionary in the shape of Isaac Lab's YAML files for the library.

    Raises:
        UserError: If the library does not support the recipe.
    """
    RL_GAMES.require(recipe)
    if recipe.horizon % recipe.minibatches:
        raise UserError(
            f"recipe {recipe.experiment_name!r}: rl_games needs a horizon that is a multiple of minibatches, and "
            f"{recipe.horizon} is not a multiple of {recipe.minibatches}"
        )
    initializer = {"name": "default"}
    return {
        "params": {
            "seed": DEFAULT_SEED,
            "env": {},
            "algo": {"name": "a2c_continuous"},
            "model": {"name": "continuous_a2c_logstd"},
            "network": {
                "name": "actor_critic",
                "separate": True,
                "space": {
                    "continuous": {
                        "mu_activation": "None",
                        "sigma_activation": "None",
                        "mu_init": initializer,
                        "sigma_init": {"name": "const_initializer", "val": math.log(recipe.initial_noise_std)},
                        "fixed_sigma": True,
                    }
                },
                "mlp": {
                    "units": list(recipe.hidden_dims),
                    "activation": recipe.activation,
                    "d2rl": False,
                    "initializer": initializer,
                },
            },
            "config": {
                "name": recipe.experiment_name,
                "env_name": "rlgpu",
                "device": "cuda:0",
                "device_name": "cuda:0",
                "ppo": True,
                "max_epochs": recipe.max_iterations,
                "save_frequency": recipe.save_interval,
                "save_best_after": recipe.max_iterations,
                "horizon_length": recipe.horizon,
                "mini_epochs": recipe.epochs,
                "minibatch_size_per_env": recipe.horizon // recipe.minibatches,
                "seq_length": 1,
                "clip_actions": False,
                "bounds_loss_coef": 0.0,
                "normalize_input": recipe.observation_normalization,
                "normalize_value": recipe.value_normalization,
                "normalize_advantage": True,
                "value_bootstrap": recipe.timeout_bootstrap,
                "reward_shaper": {"scale_value": recipe.reward_scale},
                "learning_rate": recipe.learning_rate,
                "lr_schedule": "adaptive" if recipe.schedule == "adaptive" else "constant",
                "schedule_type": "legacy",
                "kl_threshold": recipe.kl_target,
                "e_clip": recipe.clip,
                "clip_value": recipe.value_clip,
                "critic_coef": 2 * recipe.value_coef,
                "entropy_coef": recipe.entropy_coef,
                "truncate_grads": True,
                "grad_norm": recipe.max_grad_norm,
                "gamma": recipe.discount,
                "tau": recipe.gae_lambda,
                "mixed_precision": recipe.mixed_precision,
                "torch_compile": recipe.torch_compile,
            },
        }
    }
