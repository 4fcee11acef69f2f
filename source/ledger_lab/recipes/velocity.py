"""The recipes of the velocity family."""

from __future__ import annotations

from ledger_lab.recipes.ppo import PpoRecipe


def velocity(task: str) -> PpoRecipe:
    """Return the recipe of a robot that follows a velocity command.

    It is Isaac Lab's own of ANYmal-C, for fewer environments: actions begin with less noise; on flat ground iterations
    are more, and each update may change the policy twice as much. A unit action moves Go2's joints half as far as
    ANYmal's, so that it needs more noise to stir. With 512 environments the 128 slots of the panels on flat ground are
    a fifth of all robots, and the 256 on rough ground a third, or in two processes a fifth. On rough ground the network
    is that of flat ground, and not Isaac Lab's larger one, so that a robot that walks can go on from there
    (``--checkpoint``); noise is worth a fifth there, as it would grow and spoil the walk.

    Args:
        task: Ground and robot, like ``flat_anymal_c``.
    """
    rough = task.startswith("rough")
    return PpoRecipe(
        experiment_name=f"ledgerlab_velocity_{task}",
        num_envs=512,
        hidden_dims=(128, 128, 128),
        activation="elu",
        horizon=24,
        epochs=5,
        minibatches=4,
        learning_rate=1.0e-3,
        entropy_coef=0.001 if rough else 0.005,
        kl_target=0.01 if rough else 0.02,
        initial_noise_std=0.75 if task.endswith("go2") else 0.5,
        max_iterations=1500 if rough else 800,
        save_interval=50,
    )
