"""The recipes of the ant family."""

from ledger_lab.off_policy.recipe import SacRecipe, Td3Recipe
from ledger_lab.tasks.recipes.ppo import PpoRecipe

STOCK_ANT = PpoRecipe(
    experiment_name="ledgerlab_ant",
    num_envs=4096,
    hidden_dims=(400, 200, 100),
    horizon=32,
    epochs=5,
    minibatches=4,
    learning_rate=5.0e-4,
    entropy_coef=0.0,
    max_iterations=1000,
    save_interval=50,
)
"""Isaac Lab's own recipe of ``Isaac-Ant``."""

ANT = PpoRecipe(
    experiment_name="ledgerlab_ant",
    num_envs=512,
    hidden_dims=(128, 64),
    observation_normalization=True,
    horizon=16,
    epochs=5,
    minibatches=4,
    learning_rate=1.0e-3,
    entropy_coef=0.0,
    kl_target=0.02,
    max_iterations=100,
    save_interval=10,
)
"""For 512 environments on a CPU. Compared with Isaac Lab's recipe, rollouts are half as long, the network is smaller,
observations are normalized, and the KL target is twice as large."""

ANT_SAC = SacRecipe(
    experiment_name="ledgerlab_ant",
    num_envs=512,
    hidden_dims=(128, 128),
    horizon=32,
    max_iterations=200,
    save_interval=10,
    learning_rate=1.0e-3,
    action_bound=2.0,
    replay_steps=1024,
    random_steps=16,
    warm_up_steps=16,
    batch_size=512,
    updates_per_step=2,
    observation_normalization=True,
    discount=0.98,
    polyak=0.05,
    initial_entropy_coef=0.05,
    reward_scale=10.0,
)
"""The bound contains 99 % of the actions of the policy that PPO trained (``play.py RUN --action_range``). Scale of the
rewards and entropy are those of :data:`~ledger_lab.tasks.recipes.cartpole.CARTPOLE_SAC`."""

ANT_TD3 = Td3Recipe(
    experiment_name="ledgerlab_ant",
    num_envs=512,
    hidden_dims=(128, 128),
    horizon=32,
    max_iterations=200,
    save_interval=10,
    learning_rate=1.0e-3,
    action_bound=2.0,
    replay_steps=1024,
    random_steps=16,
    warm_up_steps=16,
    batch_size=512,
    updates_per_step=2,
    observation_normalization=True,
    discount=0.98,
    polyak=0.05,
    n_step=3,
    exploration_noise=(0.05, 0.8),
    reward_scale=10.0,
)
"""The values that SAC shares are those of :data:`ANT_SAC`, besides ``n_step``, which rl_games does not have. The
exploration noise is that of Li et al. 2023 (arXiv:2307.12983)."""
