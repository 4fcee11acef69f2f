"""The recipes of the cart-pole family."""

from dataclasses import replace

from ledger_lab.recipes.ppo import PpoRecipe

STOCK_CARTPOLE = PpoRecipe(
    experiment_name="ledgerlab_cartpole",
    hidden_dims=(32, 32),
    activation="elu",
    horizon=16,
    epochs=5,
    minibatches=4,
    learning_rate=1.0e-3,
    entropy_coef=0.005,
    max_iterations=150,
    save_interval=50,
)
"""What Isaac Lab trains its own ``Isaac-Cartpole`` with."""

STOCK_CARTPOLE_NUM_ENVS = 4096
"""Environments that Isaac Lab trains it in."""

CARTPOLE = replace(STOCK_CARTPOLE, gae_lambda=0.9, kl_target=0.02)
"""Tuned by the time until a policy is confirmed, on a CPU with two cores, together with the task's 256 environments: as
many iterations as with 4096 are nearly enough, and each takes a fraction of the time; larger steps over shorter
advantages then keep what they have reached."""
