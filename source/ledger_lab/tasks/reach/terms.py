"""Terms of the reaching tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.utils.math import compute_pose_error, subtract_frame_transforms

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def pose_error(env: ManagerBasedRLEnv, command_name: str) -> torch.Tensor:
    """Return the error of the commanded body's pose, in the frame of the robot's base.

    Args:
        env: The environment.
        command_name: Name of a ``UniformPoseCommand``.

    Returns:
        Shape (num_envs, 6): error of the position [m], and of the orientation as axis times angle [rad].
    """
    command = env.command_manager.get_term(command_name)
    data = command.robot.data
    hand = data.body_link_pose_w.torch[:, command.body_idx]
    base = data.root_link_pose_w.torch
    position, rotation = subtract_frame_transforms(base[:, :3], base[:, 3:7], hand[:, :3], hand[:, 3:7])
    goal = command.command
    return torch.cat(compute_pose_error(position, rotation, goal[:, :3], goal[:, 3:]), dim=1)
