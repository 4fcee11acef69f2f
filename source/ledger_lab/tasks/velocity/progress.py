"""Progress in the commanded direction, and turning: rewards with a gradient even for a robot that stands still."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.managers import SceneEntityCfg

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_ROBOT = SceneEntityCfg("robot")


def progress(env: ManagerBasedRLEnv, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Reward the velocity in the commanded direction, up to the commanded speed.

    ``exp(-(error / std)²)`` is nearly flat when a step stops a robot: at an error of 1 m/s, with ``std = 0.5``, its
    gradient is a twelfth of the largest. Here, all progress has the same reward per speed. The form is that of the
    tracking reward of
    *Extreme Parkour with Legged Robots* (Cheng et al., 2023, arXiv:2309.14341).

    Args:
        env: The environment.
        command_name: The commanded velocity.
        asset_cfg: The robot.

    Returns:
        Velocity along the horizontal command [m/s], at most its norm; shape (num_envs,).
    """
    command = env.command_manager.get_command(command_name)[:, :2]
    velocity = env.scene[asset_cfg.name].data.root_lin_vel_b.torch[:, :2]
    speed = command.norm(dim=1)
    along = (velocity * command).sum(dim=1) / speed.clamp(min=1.0e-6)
    return torch.minimum(along, speed)


def turning(env: ManagerBasedRLEnv, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Reward the turning rate in the commanded direction, up to the commanded rate: :func:`progress` about z.

    Args:
        env: The environment.
        command_name: The commanded velocity.
        asset_cfg: The robot.

    Returns:
        Turning rate in the commanded direction [rad/s], at most the commanded rate; shape (num_envs,).
    """
    command = env.command_manager.get_command(command_name)[:, 2]
    rate = env.scene[asset_cfg.name].data.root_ang_vel_b.torch[:, 2]
    return torch.minimum(rate * command.sign(), command.abs())
