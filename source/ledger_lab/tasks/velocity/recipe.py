"""The recipes of the velocity family."""

from __future__ import annotations

from ledger_lab.tasks.recipes.ppo import PpoRecipe


def velocity(task: str) -> PpoRecipe:
    """Return the recipe of a robot that follows a velocity command.

    It is Isaac Lab's recipe of ANYmal-C for fewer environments. The initial action noise is smaller, the KL target is
    twice as large, and observations are normalized: joint velocities are large compared with commands, so that without
    normalization robots learn late to follow them. On flat ground, there are more iterations. A unit action moves Go2's
    joints half as far as ANYmal's, so Go2 needs more noise. ANYmal's entropy bonus is smaller than Isaac Lab's, on
    rough ground a fifth, because more noise would grow and disturb the gait.

    With 512 environments, the 128 slots of the panels on flat ground are a fifth of all robots. The 256 slots on rough
    ground are a third, or a fifth with two processes. On rough ground, the network is that of flat ground and not Isaac
    Lab's larger one, so that training can start from a flat-ground policy (``--checkpoint``).

    Args:
        task: Ground and robot, like ``flat_anymal_c``.
    """
    rough = task.startswith("rough")
    entropy_coefs = {"flat_anymal_c": 0.003, "rough_anymal_c": 0.001, "flat_go2": 0.005}
    return PpoRecipe(
        experiment_name=f"ledgerlab_velocity_{task}",
        num_envs=512,
        hidden_dims=(128, 128, 128),
        observation_normalization=True,
        horizon=24,
        epochs=5,
        minibatches=4,
        learning_rate=1.0e-3,
        entropy_coef=entropy_coefs[task],
        kl_target=0.02,
        initial_noise_std=0.75 if task.endswith("go2") else 0.5,
        max_iterations=1500 if rough else 800,
        save_interval=50,
    )
