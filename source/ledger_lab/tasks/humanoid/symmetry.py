"""Mirror images of the humanoid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tensordict import TensorDict

from ledger_lab.tasks.humanoid.env_cfg import FEET
from ledger_lab.tasks.symmetry import Mirror, joints, signed, spins, vectors, with_images, wrenches

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

LEFT_RIGHT = Mirror(
    vector=(1, -1, 1),
    sides=(("left", "right"),),
    flipped=("lower_waist:0", "pelvis", "foot:1"),
)
TERMS = {
    "base_height": signed(1),
    "base_lin_vel": vectors,
    "base_ang_vel": spins,
    "base_yaw_roll": signed(-1, -1),
    "base_angle_to_target": signed(-1),
    "base_up_proj": signed(1),
    "base_heading_proj": signed(1),
    "joint_pos_norm": joints,
    "joint_vel_rel": joints,
    "feet_body_forces": wrenches(FEET, vector=(-1, 1, 1)),  # in the frames of the ankles, whose x points to the side
    "actions": joints,
}


def humanoid(
    env: ManagerBasedRLEnv, obs: TensorDict | None = None, actions: torch.Tensor | None = None
) -> tuple[TensorDict | None, torch.Tensor | None]:
    """Return samples and their mirror images, see :func:`ledger_lab.tasks.symmetry.with_images`."""
    return with_images(env, obs, actions, (LEFT_RIGHT,), TERMS)
