"""The recipes of tasks for algorithms with a replay memory."""

from __future__ import annotations

from typing import Any

from ledger_lab.off_policy.recipe import OffPolicyRecipe, SacRecipe, Td3Recipe

_SHARED: dict[str, Any] = {
    "learning_rate": 1.0e-3,
    "random_steps": 16,
    "warm_up_steps": 16,
    "batch_size": 512,
    "updates_per_step": 2,
    "observation_normalization": True,
    "reward_scale": 10.0,
}
"""Values of all recipes; those of a task come after them."""

_CARTPOLE: dict[str, Any] = _SHARED | {
    "experiment_name": "ledgerlab_cartpole",
    "num_envs": 256,
    "hidden_dims": (64, 64),
    "horizon": 32,
    "max_iterations": 150,
    "save_interval": 25,
    "action_bound": 4.0,
    "replay_steps": 1024,
    "polyak": 0.1,
}
"""The bound is the effort limit of the cart's joint, 400 N, divided by the action's scale, 100 N. With ``polyak=0.01``,
values grew too slowly: the pole stayed upright, but the cart left its rail. ``polyak=0.1`` is that of Seo et al. 2025
(arXiv:2505.22642). With ``reward_scale=1``, the entropy of SAC outweighed the rewards, and nothing was learned."""

CARTPOLE_SAC = SacRecipe(**_CARTPOLE, initial_entropy_coef=0.05)
CARTPOLE_TD3 = Td3Recipe(**_CARTPOLE, exploration_noise=(0.05, 0.8))
"""The exploration noise is that of Li et al. 2023 (arXiv:2307.12983)."""

_ANT: dict[str, Any] = _SHARED | {
    "experiment_name": "ledgerlab_ant",
    "num_envs": 512,
    "hidden_dims": (128, 128),
    "horizon": 32,
    "max_iterations": 200,
    "save_interval": 10,
    "action_bound": 2.0,
    "replay_steps": 1024,
    "discount": 0.98,
    "polyak": 0.05,
}
"""The bound contains 99 % of the actions of the policy that PPO trained (``play.py RUN --action_range``)."""

ANT_SAC = SacRecipe(**_ANT, initial_entropy_coef=0.05)
ANT_TD3 = Td3Recipe(**_ANT, n_step=3, exploration_noise=(0.05, 0.8))
"""The exploration noise is that of Li et al. 2023 (arXiv:2307.12983). SAC has no ``n_step``, because rl_games does not
have it."""

_REACH: dict[str, Any] = _SHARED | {
    "experiment_name": "ledgerlab_reach",
    "num_envs": 256,
    "hidden_dims": (128, 128),
    "horizon": 16,
    "max_iterations": 400,
    "save_interval": 20,
    "action_bound": 4.0,
    "replay_steps": 512,
    "discount": 0.95,
    "polyak": 0.05,
}
"""The bound contains 99.9 % of the actions of the policy that PPO trained (``play.py RUN --action_range``). The
discount factor is low for the same reason as with PPO."""

REACH_SAC = SacRecipe(**_REACH, initial_entropy_coef=0.05)
REACH_TD3 = Td3Recipe(**_REACH, exploration_noise=(0.05, 0.4))
"""The largest exploration noise is half of that of Li et al. 2023 (arXiv:2307.12983)."""

_FLAT_ANYMAL_C: dict[str, Any] = _SHARED | {
    "experiment_name": "ledgerlab_velocity_flat_anymal_c",
    "num_envs": 512,
    "hidden_dims": (128, 128),
    "horizon": 32,
    "max_iterations": 400,
    "save_interval": 20,
    "action_bound": 1.5,
    "replay_steps": 2048,
    "warm_up_steps": 32,
    "batch_size": 1024,
    "updates_per_step": 4,
    "discount": 0.98,
    "polyak": 0.05,
}
"""The bound contains 99.9 % of the actions of the policy that PPO trained (``play.py RUN --action_range``). The
learning rate and ``polyak`` are those of the ant: with half of this rate and batch, and a fifth of ``polyak``, one
training progressed more slowly. No recorded training has reached the target."""

FLAT_ANYMAL_C_SAC = SacRecipe(**_FLAT_ANYMAL_C, initial_entropy_coef=0.01)
FLAT_ANYMAL_C_TD3 = Td3Recipe(**_FLAT_ANYMAL_C, n_step=3, exploration_noise=(0.01, 0.3))
"""The noise is smaller than on the ant, because the rewards punish torques. No training of these values came before the
recorded ones."""

RECIPES: dict[str, tuple[OffPolicyRecipe, ...]] = {
    "LedgerLab-Cartpole": (CARTPOLE_SAC, CARTPOLE_TD3),
    "LedgerLab-Ant": (ANT_SAC, ANT_TD3),
    "LedgerLab-Reach-Franka": (REACH_SAC, REACH_TD3),
    "LedgerLab-Velocity-Flat-AnymalC": (FLAT_ANYMAL_C_SAC, FLAT_ANYMAL_C_TD3),
}
"""The recipes of each task that has any."""


def recipes_of(task: str) -> tuple[OffPolicyRecipe, ...]:
    """Return the recipes of a task; empty if it has none.

    Args:
        task: Gymnasium id.
    """
    return RECIPES.get(task, ())
