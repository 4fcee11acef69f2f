"""The recipe of robots that navigate."""

from ledger_lab.tasks.recipes.ppo import PpoRecipe

NAVIGATION = PpoRecipe(
    experiment_name="ledgerlab_navigation",
    num_envs=256,
    hidden_dims=(128, 64),
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
"""For a CPU. Each environment step takes 40 physics steps, so samples are expensive and updates are cheap. With 256
environments, the panel's 128 slots are a third of all robots. Observations are not normalized: a walking robot tilts
very little, so the normalized tilt of a falling robot would be huge, and the KL divergence of such samples would stop
the learning.
"""
