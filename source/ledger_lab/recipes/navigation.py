"""The recipe of robots that find their way."""

from ledger_lab.recipes.ppo import PpoRecipe

NAVIGATION = PpoRecipe(
    experiment_name="ledgerlab_navigation",
    num_envs=256,
    hidden_dims=(128, 64),
    activation="elu",
    horizon=16,
    epochs=5,
    minibatches=8,
    learning_rate=1.0e-3,
    entropy_coef=0.0,
    kl_target=0.02,
    discount=0.97,
    initial_noise_std=0.5,
    max_iterations=300,
    save_interval=10,
)
"""Meant for a CPU, as for reaching. Each step of an environment takes 40 of its physics, so that samples are dear and
updates are not; with 256 environments the panel's 128 slots are a third of all robots. Observations are not normalized:
next to how little a walking robot tilts, a fall is so far off that its divergence alone would stop the learning.
"""
