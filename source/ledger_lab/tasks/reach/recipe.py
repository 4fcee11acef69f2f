"""The recipe of arms that reach."""

from ledger_lab.tasks.recipes.ppo import PpoRecipe

REACH = PpoRecipe(
    experiment_name="ledgerlab_reach",
    num_envs=256,
    hidden_dims=(64, 64),
    observation_normalization=True,
    horizon=16,
    epochs=5,
    minibatches=8,
    learning_rate=1.0e-3,
    entropy_coef=0.0,
    kl_target=0.02,
    discount=0.95,
    initial_noise_std=0.5,
    max_iterations=400,
    save_interval=20,
)
"""For a CPU. Few environments suffice, because the policy is nearly linear in the error of the pose. The discount
factor is low, because the effect of an action shows within a second."""
