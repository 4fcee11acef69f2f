"""rl_games' settings for the fields of a recipe (rl-games 1.6)."""

from __future__ import annotations

import math
from typing import Any

from ledger_lab.errors import UserError
from ledger_lab.tasks.recipes.dialect import Dialect, Setting
from ledger_lab.tasks.recipes.ppo import DEFAULT_SEED, PpoRecipe
from ledger_lab.tasks.recipes.settings import anything, finite, one_of, widths

_SCHEDULES = ("adaptive", "linear", "constant", "fixed", "identity", "None", None)
"""Accepted names of schedules: those that the library implements, and those that its own and Isaac Lab's configurations
use for a constant rate. The library itself takes every other name, even a misspelt name, as constant."""


def _widths(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Accept layer widths, or an empty list."""
    return None if value == [] else widths(value)


def _template(recipe: PpoRecipe) -> dict[str, Any]:
    """Return the other settings, in the shape of Isaac Lab's YAML files for the library."""
    if recipe.horizon % recipe.minibatches:
        raise UserError(
            f"recipe {recipe.experiment_name!r}: rl_games needs a horizon that is a multiple of minibatches, and "
            f"{recipe.horizon} is not a multiple of {recipe.minibatches}"
        )
    initializer = {"name": "default"}
    actions = {
        "mu_activation": "None",
        "sigma_activation": "None",
        "mu_init": initializer,
        "sigma_init": {"name": "const_initializer"},
        "fixed_sigma": True,
    }
    return {
        "params": {
            "seed": DEFAULT_SEED,
            "env": {},
            "algo": {"name": "a2c_continuous"},
            "model": {"name": "continuous_a2c_logstd"},
            "network": {
                "name": "actor_critic",
                "separate": True,
                "space": {"continuous": actions},
                "mlp": {"d2rl": False, "initializer": initializer},
            },
            "config": {
                "env_name": "rlgpu",
                "device": "cuda:0",
                "device_name": "cuda:0",
                "ppo": True,
                "save_best_after": recipe.max_iterations,
                "seq_length": 1,
                "clip_actions": False,
                "bounds_loss_coef": 0.0,
                "normalize_advantage": True,
                "schedule_type": "legacy",
                "truncate_grads": True,
            },
        }
    }


DIALECT = Dialect(
    library="rl_games",
    title="rl_games",
    seed="agent.params.seed",
    settings={
        "experiment_name": Setting("agent.params.config.name"),
        "max_iterations": Setting("agent.params.config.max_epochs"),
        "save_interval": Setting("agent.params.config.save_frequency", rule=anything),
        "horizon": Setting("agent.params.config.horizon_length"),
        "epochs": Setting("agent.params.config.mini_epochs"),
        "minibatches": Setting(
            "agent.params.config.minibatch_size_per_env",
            "`horizon` ÷ `minibatches`",
            rule=anything,
            write=lambda recipe: recipe.horizon // recipe.minibatches,
        ),
        "hidden_dims": Setting("agent.params.network.mlp.units", "for both networks", rule=_widths),
        "activation": Setting("agent.params.network.mlp.activation", "for both networks"),
        "observation_normalization": Setting("agent.params.config.normalize_input"),
        "value_normalization": Setting("agent.params.config.normalize_value"),
        "learning_rate": Setting("agent.params.config.learning_rate"),
        "schedule": Setting(
            "agent.params.config.lr_schedule",
            "`adaptive` or `constant`",
            rule=one_of(*_SCHEDULES),
            write=lambda recipe: "adaptive" if recipe.schedule == "adaptive" else "constant",
        ),
        "kl_target": Setting("agent.params.config.kl_threshold"),
        "clip": Setting("agent.params.config.e_clip"),
        "value_clip": Setting("agent.params.config.clip_value"),
        "value_coef": Setting("agent.params.config.critic_coef", "doubled", write=lambda recipe: 2 * recipe.value_coef),
        "entropy_coef": Setting("agent.params.config.entropy_coef"),
        "max_grad_norm": Setting("agent.params.config.grad_norm"),
        "discount": Setting("agent.params.config.gamma"),
        "gae_lambda": Setting("agent.params.config.tau"),
        "timeout_bootstrap": Setting("agent.params.config.value_bootstrap"),
        "reward_scale": Setting("agent.params.config.reward_shaper.scale_value"),
        "initial_noise_std": Setting(
            "agent.params.network.space.continuous.sigma_init.val",
            "its logarithm",
            rule=finite,
            write=lambda recipe: math.log(recipe.initial_noise_std),
        ),
        "mixed_precision": Setting("agent.params.config.mixed_precision"),
        "torch_compile": Setting("agent.params.config.torch_compile"),
    },
    only={},
    template=_template,
)
