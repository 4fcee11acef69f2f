"""Success of reaching a pose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ledger_lab.tasks.reach.terms import pose_error

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def reached(env: ManagerBasedRLEnv, position_tolerance_m: float, rotation_tolerance_rad: float) -> torch.Tensor:
    """Tell in which environments the hand is at the commanded pose now.

    Args:
        env: The environment.
        position_tolerance_m: Largest allowed distance [m].
        rotation_tolerance_rad: Largest allowed angle, about any axis [rad].

    Returns:
        Boolean tensor of shape (num_envs,).
    """
    error = pose_error(env, "ee_pose")
    near = error[:, :3].norm(dim=1) <= position_tolerance_m
    return near & (error[:, 3:].norm(dim=1) <= rotation_tolerance_rad)
