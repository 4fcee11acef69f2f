"""Success of the cart-pole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def pole_upright(env: ManagerBasedRLEnv, tolerance_rad: float) -> torch.Tensor:
    """Tell in which environments the pole is upright now.

    A pole that has made a whole turn does not count, because the angle of its joint then is 2π, not 0.

    Args:
        env: The environment.
        tolerance_rad: Largest allowed angle from the vertical [rad].

    Returns:
        Boolean tensor of shape (num_envs,).
    """
    robot = env.scene["robot"]
    pole = robot.joint_names.index("cart_to_pole")
    return robot.data.joint_pos.torch[:, pole].abs() <= tolerance_rad
