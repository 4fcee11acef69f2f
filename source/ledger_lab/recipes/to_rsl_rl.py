"""Translation of a recipe to the configuration of RSL-RL."""

from __future__ import annotations

from typing import Any

from ledger_lab.recipes.ppo import PpoRecipe

RSL_RL_SETTINGS = {
    "learning_rate": "agent.algorithm.learning_rate",
    "schedule": "agent.algorithm.schedule",
    "kl_target": "agent.algorithm.desired_kl",
    "epochs": "agent.algorithm.num_learning_epochs",
    "entropy_coef": "agent.algorithm.entropy_coef",
    "value_coef": "agent.algorithm.value_loss_coef",
    "max_grad_norm": "agent.algorithm.max_grad_norm",
    "initial_noise_std": "agent.actor.distribution_cfg.init_std",
}
"""Overrides of the command line by the fields of the recipe that advice speaks of."""


def to_rsl_rl(recipe: PpoRecipe) -> dict[str, Any]:
    """Translate a recipe to the fields of RSL-RL's on-policy runner (rsl-rl-lib 5).

    Args:
        recipe: The recipe.

    Returns:
        Nested dictionary in the shape of ``isaaclab_rl.rsl_rl.RslRlOnPolicyRunnerCfg``.
    """
    network = {
        "hidden_dims": list(recipe.hidden_dims),
        "activation": recipe.activation,
        "obs_normalization": recipe.observation_normalization,
    }
    return {
        "experiment_name": recipe.experiment_name,
        "num_steps_per_env": recipe.horizon,
        "max_iterations": recipe.max_iterations,
        "save_interval": recipe.save_interval,
        "actor": {**network, "distribution_cfg": {"init_std": recipe.initial_noise_std}},
        "critic": network,
        "algorithm": {
            "num_learning_epochs": recipe.epochs,
            "num_mini_batches": recipe.minibatches,
            "learning_rate": recipe.learning_rate,
            "schedule": recipe.schedule,
            "desired_kl": recipe.kl_target,
            "clip_param": recipe.clip,
            "use_clipped_value_loss": recipe.value_clip,
            "value_loss_coef": recipe.value_coef,
            "entropy_coef": recipe.entropy_coef,
            "max_grad_norm": recipe.max_grad_norm,
            "gamma": recipe.discount,
            "lam": recipe.gae_lambda,
        },
    }
