"""The recipe of arms that lift."""

from ledger_lab.tasks.recipes.ppo import PpoRecipe

LIFT = PpoRecipe(
    experiment_name="ledgerlab_lift",
    num_envs=512,
    hidden_dims=(128, 64),
    observation_normalization=True,
    horizon=16,
    epochs=5,
    minibatches=8,
    learning_rate=1.0e-3,
    entropy_coef=0.001,
    kl_target=0.02,
    discount=0.98,
    initial_noise_std=0.5,
    max_iterations=1000,
    save_interval=50,
)
"""As for reaching, with a wider network and a higher discount factor: the reward for a grasp comes seconds later."""
