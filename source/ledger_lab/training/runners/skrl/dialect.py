"""SKRL's settings for the fields of a recipe (skrl 2)."""

from __future__ import annotations

import math
from typing import Any

from ledger_lab.errors import UserError
from ledger_lab.tasks.recipes.dialect import LEFT_OUT, Dialect, Only, Setting
from ledger_lab.tasks.recipes.ppo import DEFAULT_SEED, PpoRecipe
from ledger_lab.tasks.recipes.settings import finite, one_of, or_none, positive, widths

_NORMALIZER = "RunningStandardScaler"
_SCHEDULER = "KLAdaptiveLR"


def layers(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Accept a list of widths, a list of layers in the library's notation, or an empty list."""
    plain = [layer for layer in value if not isinstance(layer, dict | str)] if isinstance(value, list) else value
    return None if plain == [] else widths(plain)


def _rates(value: Any) -> str | None:  # noqa: ANN401
    """Accept one learning rate for both networks, or one for each."""
    rates = value if isinstance(value, list) else [value]
    return next(filter(None, map(positive, rates)), None)


def _steps(value: Any) -> str | None:  # noqa: ANN401
    """Accept a number of steps, and ``auto`` for a tenth of the training."""
    fits = value == "auto" or isinstance(value, int)
    return None if fits else "must be 'auto' or a whole number of steps"


def _log_std(value: Any) -> str | None:  # noqa: ANN401
    """Accept log standard deviations that the library does not clip silently."""
    fits = finite(value) is None and value <= 2.0
    return None if fits else "must be a finite number of at most 2, where SKRL cuts it"


def _template(recipe: PpoRecipe) -> dict[str, Any]:
    """Return the other settings, in the shape of the YAML files that the library's runner takes."""
    if _log_std(math.log(recipe.initial_noise_std)) is not None:
        raise UserError(
            f"recipe {recipe.experiment_name!r}: SKRL limits the standard deviation of actions to e² ≈ 7.4: lower "
            f"initial_noise_std, which is {recipe.initial_noise_std:g}"
        )
    policy, value = ([{"name": "net", "input": "OBSERVATIONS"}] for _ in range(2))
    return {
        "seed": DEFAULT_SEED,
        "models": {
            "separate": True,
            "policy": {"class": "GaussianMixin", "network": policy, "output": "ACTIONS"},
            "value": {"class": "DeterministicMixin", "network": value, "output": "ONE"},
        },
        "memory": {"class": "RandomMemory", "memory_size": -1},
        "agent": {
            "class": "PPO",
            "learning_rate_scheduler_kwargs": {"min_lr": 1e-5, "max_lr": 1e-2} if _adapts(recipe) else {},
            "observation_preprocessor_kwargs": {},
            "value_preprocessor_kwargs": {},
            "kl_threshold": 0.0,
            "experiment": {"experiment_name": "", "write_interval": recipe.horizon},
        },
        "trainer": {"class": "SequentialTrainer", "environment_info": "log"},
    }


def _adapts(recipe: PpoRecipe) -> bool:
    """Tell whether the learning rate of a recipe follows the KL divergence."""
    return recipe.schedule == "adaptive"


DIALECT = Dialect(
    library="skrl",
    title="SKRL",
    seed="agent.seed",
    settings={
        "experiment_name": Setting("agent.agent.experiment.directory"),
        "max_iterations": Setting(
            "agent.trainer.timesteps",
            "multiplied by `horizon`",
            write=lambda recipe: recipe.max_iterations * recipe.horizon,
        ),
        "save_interval": Setting(
            "agent.agent.experiment.checkpoint_interval",
            "multiplied by `horizon`",
            rule=_steps,
            write=lambda recipe: recipe.save_interval * recipe.horizon,
        ),
        "horizon": Setting("agent.agent.rollouts"),
        "epochs": Setting("agent.agent.learning_epochs"),
        "minibatches": Setting("agent.agent.mini_batches"),
        "hidden_dims": Setting(
            "agent.models.policy.network.0.layers",
            "and the value network's",
            ("agent.models.value.network.0.layers",),
            layers,
        ),
        "activation": Setting(
            "agent.models.policy.network.0.activations",
            "and the value network's",
            ("agent.models.value.network.0.activations",),
        ),
        "observation_normalization": Setting(
            "agent.agent.observation_preprocessor",
            "`RunningStandardScaler` or none",
            rule=one_of(_NORMALIZER, None),
            write=lambda recipe: _NORMALIZER if recipe.observation_normalization else None,
            unwritten=("agent.agent.state_preprocessor",),
        ),
        "value_normalization": Setting(
            "agent.agent.value_preprocessor",
            "`RunningStandardScaler` or none",
            rule=one_of(_NORMALIZER, None),
            write=lambda recipe: _NORMALIZER if recipe.value_normalization else None,
        ),
        "learning_rate": Setting("agent.agent.learning_rate", rule=_rates),
        "schedule": Setting(
            "agent.agent.learning_rate_scheduler",
            "`KLAdaptiveLR` or none",
            rule=one_of(_SCHEDULER, None),
            write=lambda recipe: _SCHEDULER if _adapts(recipe) else None,
        ),
        "kl_target": Setting(
            "agent.agent.learning_rate_scheduler_kwargs.kl_threshold",
            write=lambda recipe: recipe.kl_target if _adapts(recipe) else LEFT_OUT,
        ),
        "clip": Setting("agent.agent.ratio_clip", "and `value_clip`"),
        "value_clip": Setting(
            "agent.agent.value_clip",
            "`clip` or 0",
            rule=finite,
            write=lambda recipe: recipe.clip if recipe.value_clip else 0.0,
        ),
        "value_coef": Setting("agent.agent.value_loss_scale"),
        "entropy_coef": Setting("agent.agent.entropy_loss_scale"),
        "max_grad_norm": Setting("agent.agent.grad_norm_clip", rule=finite),
        "discount": Setting("agent.agent.discount_factor"),
        "gae_lambda": Setting("agent.agent.gae_lambda", unwritten=("agent.agent.lambda",)),
        "timeout_bootstrap": Setting("agent.agent.time_limit_bootstrap"),
        "reward_scale": Setting("agent.agent.rewards_shaper_scale", rule=or_none(positive)),
        "initial_noise_std": Setting(
            "agent.models.policy.initial_log_std",
            "its logarithm",
            rule=_log_std,
            write=lambda recipe: math.log(recipe.initial_noise_std),
        ),
        "mixed_precision": Setting("agent.agent.mixed_precision"),
    },
    only={
        "timeout_bootstrap": Only(True, "without it, advantages continue from one episode into the next"),
        "torch_compile": Only(False, "it has no setting for it"),
    },
    adaptive=_SCHEDULER,
    template=_template,
)
