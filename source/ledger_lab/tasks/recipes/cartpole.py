"""The recipes of the cart-pole family."""

from dataclasses import replace

from ledger_lab.off_policy.recipe import SacRecipe, Td3Recipe
from ledger_lab.tasks.recipes.ppo import PpoRecipe

STOCK_CARTPOLE = PpoRecipe(
    experiment_name="ledgerlab_cartpole",
    num_envs=4096,
    hidden_dims=(32, 32),
    horizon=16,
    epochs=5,
    minibatches=4,
    learning_rate=1.0e-3,
    entropy_coef=0.005,
    max_iterations=150,
    save_interval=50,
)
"""Isaac Lab's own recipe of ``Isaac-Cartpole``."""

CARTPOLE = replace(STOCK_CARTPOLE, num_envs=256, horizon=32)
"""Tuned for the time until a policy is confirmed, on two CPU cores. With 256 environments, training needs nearly as
many iterations as with 4096, and each iteration is much cheaper. A horizon of 32 steps keeps a learned policy
stable."""

CARTPOLE_SAC = SacRecipe(
    experiment_name="ledgerlab_cartpole",
    num_envs=256,
    hidden_dims=(64, 64),
    horizon=32,
    max_iterations=150,
    save_interval=25,
    learning_rate=1.0e-3,
    action_bound=4.0,
    replay_steps=1024,
    random_steps=16,
    warm_up_steps=16,
    batch_size=512,
    updates_per_step=2,
    observation_normalization=True,
    polyak=0.1,
    initial_entropy_coef=0.05,
    reward_scale=10.0,
)
"""The bound is the effort limit of the cart's joint, 400 N, divided by the action's scale, 100 N. With ``polyak=0.01``,
values grew too slowly: the pole stayed upright, but the cart left its rail. ``polyak=0.1`` is that of Seo et al. 2025
(arXiv:2505.22642). With ``reward_scale=1``, the entropy outweighed the rewards, and nothing was learned."""

CARTPOLE_TD3 = Td3Recipe(
    experiment_name="ledgerlab_cartpole",
    num_envs=256,
    hidden_dims=(64, 64),
    horizon=32,
    max_iterations=150,
    save_interval=25,
    learning_rate=1.0e-3,
    action_bound=4.0,
    replay_steps=1024,
    random_steps=16,
    warm_up_steps=16,
    batch_size=512,
    updates_per_step=2,
    observation_normalization=True,
    polyak=0.1,
    exploration_noise=(0.05, 0.8),
    reward_scale=10.0,
)
"""The values that SAC shares are those of :data:`CARTPOLE_SAC`. The exploration noise is that of Li et al. 2023
(arXiv:2307.12983)."""
