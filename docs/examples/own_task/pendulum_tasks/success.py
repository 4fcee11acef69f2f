"""When the pendulum counts as swung up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def upright(env: ManagerBasedRLEnv, tolerance_rad: float) -> torch.Tensor:
    """Return whether the rod stands upright now; boolean tensor of shape (num_envs,)."""
    pendulum = env.scene["pendulum"]
    angle = pendulum.data.joint_pos.torch[:, pendulum.joint_names.index("hinge")]
    return torch.atan2(angle.sin(), angle.cos()).abs() <= tolerance_rad
