"""Mirror images of robots that follow velocity commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tensordict import TensorDict

from ledger_lab.tasks.symmetry import Mirror, grid, joints, planar_velocities, signed, spins, vectors, with_images

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

ANYMAL_C = (
    Mirror(vector=(1, -1, 1), sides=(("LF", "RF"), ("LH", "RH")), flipped=("HAA",)),
    Mirror(vector=(-1, 1, 1), sides=(("LF", "LH"), ("RF", "RH")), flipped=("HFE", "KFE")),
)
"""ANYmal-C is symmetric from left to right and from front to back."""
GO2 = (Mirror(vector=(1, -1, 1), sides=(("FL", "FR"), ("RL", "RR")), flipped=("hip_joint",)),)
"""Go2 is symmetric from left to right only, because all its knees point backwards."""
TERMS = {
    "base_lin_vel": vectors,
    "base_ang_vel": spins,
    "projected_gravity": vectors,
    "velocity_commands": planar_velocities,
    "joint_pos": joints,
    "joint_vel": joints,
    "actions": joints,
    "height_scan": grid(9, 6),
    "gait_phase": signed(-1, -1),  # the phases of the two pairs of feet are swapped
}


def anymal_c(
    env: ManagerBasedRLEnv, obs: TensorDict | None = None, actions: torch.Tensor | None = None
) -> tuple[TensorDict | None, torch.Tensor | None]:
    """Return samples of ANYmal-C and their three mirror images, see :func:`ledger_lab.tasks.symmetry.with_images`."""
    return with_images(env, obs, actions, ANYMAL_C, TERMS)


def go2(
    env: ManagerBasedRLEnv, obs: TensorDict | None = None, actions: torch.Tensor | None = None
) -> tuple[TensorDict | None, torch.Tensor | None]:
    """Return samples of Go2 and their mirror images, see :func:`ledger_lab.tasks.symmetry.with_images`."""
    return with_images(env, obs, actions, GO2, TERMS)
