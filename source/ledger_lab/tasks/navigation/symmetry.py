"""Mirror images of the navigating robot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tensordict import TensorDict

from ledger_lab.tasks.navigation.env_cfg import RAYS
from ledger_lab.tasks.symmetry import planar_velocities, ring, signed, spins, vectors, with_images
from ledger_lab.tasks.velocity.symmetry import ANYMAL_C

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

LEFT_RIGHT = ANYMAL_C[0]
TERMS = {
    "base_lin_vel": vectors,
    "base_ang_vel": spins,
    "projected_gravity": vectors,
    "pose_command": signed(1, -1, 1, -1),
    "actions": planar_velocities,
    "nearness": ring(RAYS),
}


def navigation(
    env: ManagerBasedRLEnv, obs: TensorDict | None = None, actions: torch.Tensor | None = None
) -> tuple[TensorDict | None, torch.Tensor | None]:
    """Return samples and their mirror images, see :func:`ledger_lab.tasks.symmetry.with_images`."""
    return with_images(env, obs, actions, (LEFT_RIGHT,), TERMS, planar_velocities)
