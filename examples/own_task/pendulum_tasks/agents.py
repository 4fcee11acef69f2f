"""The agent: one recipe, translated into the configurations of three libraries."""

from ledger_lab.recipes import PpoRecipe
from ledger_lab.tasks.translations import translations

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

rsl_rl_cfg, rl_games_cfg, skrl_cfg = translations(RECIPE)
