"""The recipe of robots that find their way."""

from ledger_lab.recipes.ppo import PpoRecipe

NAVIGATION = PpoRecipe(
    experiment_name="ledgerlab_navigation",
    num_envs=64,
    hidden_dims=(128, 64),
    activation="elu",
    horizon=16,
    epochs=5,
    minibatches=4,
    learning_rate=1.0e-3,
    entropy_coef=0.005,
    initial_noise_std=0.5,
    max_iterations=500,
    save_interval=20,
)
"""Isaac Lab's own of its navigating ANYmal, with rollouts twice as long: an environment step is a fifth of a second, of
which an episode has 60. Environments are few, because each step of one takes 40 steps of its physics."""
