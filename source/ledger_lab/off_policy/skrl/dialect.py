"""SKRL's settings for the fields of recipes of SAC and TD3 (skrl 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger_lab.off_policy.recipe import OPTIONS, OffPolicyRecipe, SacRecipe, Td3Recipe
from ledger_lab.tasks.recipes.dialect import Dialect, Setting
from ledger_lab.tasks.recipes.ppo import DEFAULT_SEED
from ledger_lab.training.runners.skrl.dialect import DIALECT as PPO_DIALECT
from ledger_lab.training.runners.skrl.dialect import layers

CRITICS = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
"""Roles of the networks that estimate values."""
POLICIES = ("policy", "target_policy")
"""Roles of the networks that choose actions; the second one belongs to TD3."""
NOISE = ("exploration_noise", "target_noise", "target_noise_clip")
"""Fields of noise. LedgerLab keeps them, because the library's own settings do not follow the bound of the actions."""


def _dialect(
    recipe: type[OffPolicyRecipe],
    *,
    policies: tuple[str, ...],
    policy: Mapping[str, Any],
    agent: Mapping[str, Any],
    settings: Mapping[str, Setting],
) -> Dialect:
    """Return the dialect of an algorithm with a replay memory.

    Args:
        recipe: Class of its recipes.
        policies: Roles of its policies' networks, that of the acting policy first.
        policy: Class of these networks, and its other arguments.
        agent: Settings of the agent that no field of a recipe has.
        settings: Settings of the fields that only this algorithm has.
    """
    roles = (*policies, *CRITICS)

    def of_all_networks(name: str) -> Setting:
        """Return the setting of all networks for a field of their hidden layers."""
        first, *others = (f"agent.models.{role}.network.0.{name}" for role in roles)
        return Setting(first, "and the other networks'", tuple(others), layers if name == "layers" else None)

    def template(_: OffPolicyRecipe) -> dict[str, Any]:
        """Return the other settings, in the shape of the YAML files that the library's runner takes."""
        critic = {"class": "DeterministicMixin", "output": "ONE"}
        return {
            "seed": DEFAULT_SEED,
            "models": {
                "separate": True,
                **{role: {**policy, "network": _network("OBSERVATIONS"), "output": "ACTIONS"} for role in policies},
                **{role: {**critic, "network": _network("concatenate([OBSERVATIONS, ACTIONS])")} for role in CRITICS},
            },
            "memory": {"class": "RandomMemory", "replacement": True},
            "agent": {
                "class": recipe.algorithm.upper(),
                "grad_norm_clip": 0.0,
                "observation_preprocessor_kwargs": {},
                "experiment": {"experiment_name": ""},
                **agent,
            },
            "trainer": {"class": "SequentialTrainer", "environment_info": "log"},
        }

    return Dialect(
        library=PPO_DIALECT.library,
        title=PPO_DIALECT.title,
        seed=PPO_DIALECT.seed,
        settings={
            **{
                name: PPO_DIALECT.settings[name]
                for name in (
                    *("experiment_name", "max_iterations", "save_interval", "observation_normalization"),
                    *("discount", "reward_scale"),
                )
            },
            "horizon": Setting("agent.agent.experiment.write_interval"),
            "hidden_dims": of_all_networks("layers"),
            "activation": of_all_networks("activations"),
            "learning_rate": Setting("agent.agent.learning_rate"),
            "action_bound": Setting("agent.action_bound", "LedgerLab's own"),
            "replay_steps": Setting("agent.memory.memory_size"),
            "random_steps": Setting("agent.agent.random_timesteps"),
            "warm_up_steps": Setting("agent.agent.learning_starts"),
            "batch_size": Setting("agent.agent.batch_size"),
            "updates_per_step": Setting("agent.agent.gradient_steps"),
            "polyak": Setting("agent.agent.polyak"),
            **{name: _own_setting(name) for name in OPTIONS},
            **settings,
        },
        only={},
        template=template,
        recipe=recipe,
    )


def _own_setting(name: str) -> Setting:
    """Return the setting of a field that the library does not have."""
    return Setting(f"agent.{name}", "LedgerLab's own", optional=True)


def _network(inputs: str) -> list[dict[str, Any]]:
    """Return the description of a network, without its layers."""
    return [{"name": "net", "input": inputs}]


SAC = _dialect(
    SacRecipe,
    policies=POLICIES[:1],
    policy={"class": "GaussianMixin", "initial_log_std": 0.0},
    agent={"learn_entropy": True},
    settings={
        "initial_entropy_coef": Setting("agent.agent.initial_entropy_value"),
        "entropy_target": _own_setting("entropy_target"),
    },
)
TD3 = _dialect(
    Td3Recipe,
    policies=POLICIES,
    policy={"class": "DeterministicMixin"},
    agent={},
    settings={
        **{name: Setting(f"agent.{name}", "LedgerLab's own") for name in NOISE},
        "policy_delay": Setting("agent.agent.policy_delay"),
    },
)
