"""Success of navigation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.utils.math import wrap_to_pi

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def arrived(env: ManagerBasedRLEnv, position_tolerance_m: float, heading_tolerance_rad: float) -> torch.Tensor:
    """Tell which robots are at the commanded pose now.

    Args:
        env: The environment.
        position_tolerance_m: Largest allowed distance of the base along the ground [m].
        heading_tolerance_rad: Largest allowed angle between its heading and the commanded heading [rad].

    Returns:
        Boolean tensor of shape (num_envs,).
    """
    command = env.command_manager.get_term("pose_command")
    data = command.robot.data
    away = (command.pos_command_w - data.root_pos_w.torch)[:, :2].norm(dim=1)
    turned = wrap_to_pi(command.heading_command_w - data.heading_w.torch).abs()
    return (away <= position_tolerance_m) & (turned <= heading_tolerance_rad)
