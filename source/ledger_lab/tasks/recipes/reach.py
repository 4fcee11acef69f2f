"""The recipe of arms that reach."""

from ledger_lab.off_policy.recipe import SacRecipe, Td3Recipe
from ledger_lab.tasks.recipes.ppo import PpoRecipe

REACH = PpoRecipe(
    experiment_name="ledgerlab_reach",
    num_envs=256,
    hidden_dims=(64, 64),
    observation_normalization=True,
    horizon=16,
    epochs=5,
    minibatches=8,
    learning_rate=1.0e-3,
    entropy_coef=0.0,
    kl_target=0.02,
    discount=0.95,
    initial_noise_std=0.5,
    max_iterations=400,
    save_interval=20,
)
"""For a CPU. Few environments suffice, because the policy is nearly linear in the error of the pose. The discount
factor is low, because the effect of an action shows within a second."""

REACH_SAC = SacRecipe(
    experiment_name="ledgerlab_reach",
    num_envs=256,
    hidden_dims=(128, 128),
    horizon=16,
    max_iterations=400,
    save_interval=20,
    learning_rate=1.0e-3,
    action_bound=4.0,
    replay_steps=512,
    random_steps=16,
    warm_up_steps=16,
    batch_size=512,
    updates_per_step=2,
    observation_normalization=True,
    discount=0.95,
    polyak=0.05,
    reward_scale=10.0,
    initial_entropy_coef=0.05,
)
"""The bound contains 99.9 % of the actions of the policy that PPO trained (``play.py RUN --action_range``). The
discount factor is low for the same reason as with PPO."""

REACH_TD3 = Td3Recipe(
    experiment_name="ledgerlab_reach",
    num_envs=256,
    hidden_dims=(128, 128),
    horizon=16,
    max_iterations=400,
    save_interval=20,
    learning_rate=1.0e-3,
    action_bound=4.0,
    replay_steps=512,
    random_steps=16,
    warm_up_steps=16,
    batch_size=512,
    updates_per_step=2,
    observation_normalization=True,
    discount=0.95,
    polyak=0.05,
    reward_scale=10.0,
    exploration_noise=(0.05, 0.4),
)
"""The values that SAC shares are those of :data:`REACH_SAC`. The largest exploration noise is half of that of Li et al.
2023 (arXiv:2307.12983)."""
