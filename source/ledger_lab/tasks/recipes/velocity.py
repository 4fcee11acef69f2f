"""The recipes of the velocity family."""

from __future__ import annotations

from ledger_lab.off_policy.recipe import SacRecipe, Td3Recipe
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


FLAT_ANYMAL_C_SAC = SacRecipe(
    experiment_name="ledgerlab_velocity_flat_anymal_c",
    num_envs=512,
    hidden_dims=(128, 128),
    horizon=32,
    max_iterations=400,
    save_interval=20,
    learning_rate=1.0e-3,
    action_bound=1.5,
    replay_steps=2048,
    random_steps=16,
    warm_up_steps=32,
    batch_size=1024,
    updates_per_step=4,
    observation_normalization=True,
    discount=0.98,
    polyak=0.05,
    initial_entropy_coef=0.01,
    reward_scale=10.0,
)
"""The bound contains 99.9 % of the actions of the policy that PPO trained (``play.py RUN --action_range``). The
learning rate and ``polyak`` are those of :data:`~ledger_lab.tasks.recipes.ant.ANT_SAC`: with half of this rate and
batch, and a fifth of ``polyak``, one training progressed more slowly. No recorded training has reached the target."""

FLAT_ANYMAL_C_TD3 = Td3Recipe(
    experiment_name="ledgerlab_velocity_flat_anymal_c",
    num_envs=512,
    hidden_dims=(128, 128),
    horizon=32,
    max_iterations=400,
    save_interval=20,
    learning_rate=1.0e-3,
    action_bound=1.5,
    replay_steps=2048,
    random_steps=16,
    warm_up_steps=32,
    batch_size=1024,
    updates_per_step=4,
    observation_normalization=True,
    discount=0.98,
    polyak=0.05,
    n_step=3,
    exploration_noise=(0.01, 0.3),
    reward_scale=10.0,
)
"""The values that SAC shares are those of :data:`FLAT_ANYMAL_C_SAC`, besides ``n_step``, which rl_games does not have.
The noise is smaller than on the ant, because the rewards punish torques. No training of these values came before the
recorded ones, and none of these has reached the target."""
