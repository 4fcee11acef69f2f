"""rl_games' settings for the fields of a recipe of soft actor-critic (rl-games 1.6)."""

from __future__ import annotations

from typing import Any

from ledger_lab.off_policy.recipe import OPTIONS, SacRecipe, reachable_entropy
from ledger_lab.tasks.recipes.dialect import Dialect, Only, Setting
from ledger_lab.tasks.recipes.ppo import DEFAULT_SEED
from ledger_lab.tasks.recipes.settings import finite
from ledger_lab.training.runners.rl_games.dialect import DIALECT as PPO_DIALECT

STEPS = ("replay_steps", "random_steps", "warm_up_steps")
"""Fields that LedgerLab keeps, because the library's own settings count iterations or transitions of all
environments."""

LOG_STD_BOUNDS = (-5.0, 5.0)
"""Smallest and largest logarithm of the standard deviation of the actions, before they are squashed. The library begins
in the middle, so policies begin with a standard deviation of 1, as in SKRL."""


def _template(_: SacRecipe) -> dict[str, Any]:
    """Return the other settings, in the shape of Isaac Lab's YAML files for the library."""
    return {
        "params": {
            "seed": DEFAULT_SEED,
            "env": {},
            "algo": {"name": "sac"},
            "model": {"name": "soft_actor_critic"},
            "network": {
                "name": "soft_actor_critic",
                "separate": True,
                "log_std_bounds": list(LOG_STD_BOUNDS),
                "mlp": {"initializer": {"name": "default"}},
            },
            "config": {
                "env_name": "rlgpu",
                "device": "cuda:0",
                "device_name": "cuda:0",
                "learnable_temperature": True,
                "policy_frequency": 1,
                "critic_grad_clip": 0.0,
            },
        }
    }


def _reachable_with_opposite_sign(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Accept a number of the library, which has the opposite sign of an entropy."""
    if wrong := finite(value):
        return wrong
    wrong = reachable_entropy(-value)
    return wrong and f"with the opposite sign, it {wrong}"


SAC = Dialect(
    library=PPO_DIALECT.library,
    title=PPO_DIALECT.title,
    seed=PPO_DIALECT.seed,
    recipe=SacRecipe,
    one_process_reason="because the library does not average the gradients of several processes",
    settings={
        **{
            name: PPO_DIALECT.settings[name]
            for name in (
                *("experiment_name", "max_iterations", "save_interval", "observation_normalization"),
                *("discount", "reward_scale"),
            )
        },
        "horizon": Setting("agent.params.config.num_steps_per_episode"),
        "hidden_dims": Setting("agent.params.network.mlp.units", "for all networks"),
        "activation": Setting("agent.params.network.mlp.activation", "for all networks"),
        "learning_rate": Setting(
            "agent.params.config.actor_lr",
            "and `critic_lr` and `alpha_lr`",
            ("agent.params.config.critic_lr", "agent.params.config.alpha_lr"),
        ),
        "action_bound": Setting("agent.params.env.clip_actions"),
        **{name: Setting(f"agent.{name}", "LedgerLab's own") for name in STEPS},
        "batch_size": Setting("agent.params.config.batch_size"),
        "updates_per_step": Setting("agent.params.config.num_updates_per_step"),
        "polyak": Setting("agent.params.config.critic_tau"),
        "initial_entropy_coef": Setting("agent.params.config.init_alpha"),
        "entropy_target": Setting(
            "agent.params.config.target_entropy_coef",
            "with the opposite sign",
            rule=_reachable_with_opposite_sign,
            write=lambda recipe: -recipe.entropy_target,
            optional=True,
        ),
    },
    only={
        name: Only(getattr(SacRecipe, name), "it has no such setting: leave it out, or use --rl_library skrl")
        for name in OPTIONS
    },
    template=_template,
)
