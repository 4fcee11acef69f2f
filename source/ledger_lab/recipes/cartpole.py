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

CARTPOLE = replace(STOCK_CARTPOLE, horizon=32)
"""Tuned by the time until a policy is confirmed, on a CPU with two cores, together with the task's 256 environments:
they learn in nearly as many iterations as 4096 do, and an iteration costs a fraction; advantages over 32 steps keep
what has been learned."""
