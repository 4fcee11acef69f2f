"""The recipe of the ant family."""

from ledger_lab.tasks.recipes.ppo import PpoRecipe

ANT = PpoRecipe(
    experiment_name="ledgerlab_ant",
    num_envs=512,
    hidden_dims=(128, 64),
    observation_normalization=True,
    horizon=16,
    epochs=5,
    minibatches=4,
    learning_rate=1.0e-3,
    entropy_coef=0.0,
    kl_target=0.02,
    max_iterations=100,
    save_interval=10,
)
"""For 512 environments on a CPU. Compared with Isaac Lab's recipe, rollouts are half as long, the network is smaller,
observations are normalized, and the KL target is twice as large."""
