"""The recipe of the cart-pole family."""

from ledger_lab.recipes.ppo import PpoRecipe

CARTPOLE = PpoRecipe(
    experiment_name="ledgerlab_cartpole",
    hidden_dims=(32, 32),
    activation="elu",
    horizon=16,
    epochs=5,
    minibatches=4,
    learning_rate=1.0e-3,
    entropy_coef=0.005,
    max_iterations=55,
    save_interval=5,
)
"""The stock recipe of ``Isaac-Cartpole``, with a checkpoint every five iterations."""
