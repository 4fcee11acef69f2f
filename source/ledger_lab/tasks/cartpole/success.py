"""Success of the cart-pole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.utils.math import wrap_to_pi

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def pole_upright(env: ManagerBasedRLEnv, tolerance_rad: float) -> torch.Tensor:
    """Tell in which environments the pole is upright now.

    Args:
        env: The environment.
        tolerance_rad: Largest allowed angle from the vertical [rad].

    Returns:
        Boolean tensor of shape (num_envs,).
    """
    robot = env.scene["robot"]
    pole = robot.joint_names.index("cart_to_pole")
    angle = wrap_to_pi(robot.data.joint_pos.torch[:, pole])  # the joint counts whole turns
    return angle.abs() <= tolerance_rad
