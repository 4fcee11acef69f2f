"""SKRL's settings for the fields of an off-policy recipe, for soft actor-critic (skrl 2)."""

from __future__ import annotations

from typing import Any

from ledger_lab.recipes.dialect import Dialect, Setting
from ledger_lab.recipes.off_policy import RULES, OffPolicyRecipe
from ledger_lab.recipes.ppo import DEFAULT_SEED
from ledger_lab.recipes.rules import one_of, or_none, positive
from ledger_lab.runners.skrl.dialect import DIALECT as PPO_DIALECT
from ledger_lab.runners.skrl.dialect import layers

CRITICS = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
"""Roles of the networks that estimate values."""

_NORMALIZER = "RunningStandardScaler"


def _network(name: str) -> Setting:
    """Return the setting of all networks for a field of their hidden layers."""
    paths = [f"agent.models.{role}.network.0.{name}" for role in ("policy", *CRITICS)]
    return Setting(paths[0], "and the critics'", tuple(paths[1:]), layers if name == "layers" else None)


def _template(recipe: OffPolicyRecipe) -> dict[str, Any]:
    """Return the other settings, in the shape of the YAML files that the library's runner takes."""
    critics = {
        role: {
            "class": "DeterministicMixin",
            "network": [{"name": "net", "input": "concatenate([OBSERVATIONS, ACTIONS])"}],
            "output": "ONE",
        }
        for role in CRITICS
    }
    policy = [{"name": "net", "input": "OBSERVATIONS"}]
    return {
        "seed": DEFAULT_SEED,
        "models": {
            "separate": True,
            "policy": {"class": "GaussianMixin", "network": policy, "output": "ACTIONS", "initial_log_std": 0.0},
            **critics,
        },
        "memory": {"class": "RandomMemory", "replacement": True},
        "agent": {
            "class": "SAC",
            "grad_norm_clip": 0.0,
            "learn_entropy": True,
            "observation_preprocessor_kwargs": {},
            "experiment": {"experiment_name": ""},
        },
        "trainer": {"class": "SequentialTrainer", "environment_info": "log"},
    }


DIALECT = Dialect(
    library=PPO_DIALECT.library,
    algorithm="sac",
    title=PPO_DIALECT.title,
    seed=PPO_DIALECT.seed,
    settings={
        **{name: PPO_DIALECT.settings[name] for name in ("experiment_name", "max_iterations", "save_interval")},
        "horizon": Setting("agent.agent.experiment.write_interval"),
        "hidden_dims": _network("layers"),
        "activation": _network("activations"),
        "learning_rate": Setting("agent.agent.learning_rate"),
        "action_bound": Setting("agent.action_bound", "LedgerLab's own"),
        "replay_steps": Setting("agent.memory.memory_size"),
        "random_steps": Setting("agent.agent.random_timesteps"),
        "warm_up_steps": Setting("agent.agent.learning_starts"),
        "batch_size": Setting("agent.agent.batch_size"),
        "updates_per_step": Setting("agent.agent.gradient_steps"),
        "observation_normalization": Setting(
            "agent.agent.observation_preprocessor",
            "`RunningStandardScaler` or none",
            rule=one_of(_NORMALIZER, None),
            write=lambda recipe: _NORMALIZER if recipe.observation_normalization else None,
        ),
        "discount": Setting("agent.agent.discount_factor"),
        "polyak": Setting("agent.agent.polyak"),
        "initial_entropy_coef": Setting("agent.agent.initial_entropy_value"),
        "reward_scale": Setting("agent.agent.rewards_shaper_scale", rule=or_none(positive)),
    },
    only={},
    differences={
        "action_bound": "the library samples from an unbounded Gaussian; LedgerLab squashes it with tanh",
        "initial_noise_std": "one learned standard deviation per action, the same in all states",
        "observation_normalization": "updated with each batch of observations and of next observations",
        "first episodes": "have their full length",
    },
    template=_template,
    fields=RULES,
)
