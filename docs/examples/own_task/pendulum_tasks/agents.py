"""The agent: one recipe, which is translated into the configuration of each library."""

from ledger_lab.tasks.recipes import PpoRecipe

RECIPE = PpoRecipe(
    experiment_name="pendulum_swingup",
    num_envs=256,
    horizon=32,
    epochs=5,
    minibatches=4,
    hidden_dims=(64, 64),
    learning_rate=1.0e-3,
    entropy_coef=0.005,
    max_iterations=150,
    save_interval=25,
)
