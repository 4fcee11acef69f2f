"""Success of following a velocity command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def tracks_velocity(env: ManagerBasedRLEnv, linear_m_s: float, angular_rad_s: float) -> torch.Tensor:
    """Tell which robots have the commanded velocity, averaged over a cycle of the gait.

    Args:
        env: The environment.
        linear_m_s: Largest error of the horizontal velocity [m/s].
        angular_rad_s: Largest error of the turning rate [rad/s].

    Returns:
        Boolean tensor of shape (num_envs,).
    """
    error = env.command_manager.get_term("base_velocity").mean_error
    return (error[:, :2].norm(dim=1) <= linear_m_s) & (error[:, 2].abs() <= angular_rad_s)
