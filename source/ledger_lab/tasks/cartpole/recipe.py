"""The recipes of the cart-pole family."""

from dataclasses import replace

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
"""Tuned for the time until a policy is proven, on two CPU cores. With 256 environments, training needs nearly as
many iterations as with 4096, and each iteration is much cheaper. A horizon of 32 steps keeps a learned policy
stable."""
