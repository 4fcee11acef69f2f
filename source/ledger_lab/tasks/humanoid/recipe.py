"""The recipe of the humanoid family."""

from ledger_lab.tasks.recipes.ppo import PpoRecipe

HUMANOID = PpoRecipe(
    experiment_name="ledgerlab_humanoid",
    num_envs=512,
    hidden_dims=(256, 128, 64),
    observation_normalization=True,
    horizon=32,
    epochs=5,
    minibatches=8,
    learning_rate=5.0e-4,
    entropy_coef=0.0,
    kl_target=0.02,
    value_coef=2.0,
    initial_noise_std=0.5,
    max_iterations=1000,
    save_interval=50,
)
"""For 512 environments on a CPU, where samples are expensive. Compared with Isaac Lab's recipe of ``Isaac-Humanoid``,
the network is smaller, the initial action noise is half as large, there are twice as many minibatches, and the KL
target is twice as large."""
