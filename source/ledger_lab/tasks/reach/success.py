"""When an arm counts as having reached a pose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ledger_lab.tasks.reach.terms import pose_error

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def reached(env: ManagerBasedRLEnv, position_tolerance_m: float, rotation_tolerance_rad: float) -> torch.Tensor:
    """Tell where the hand is at the commanded pose at this moment.

    Args:
        env: The environment.
        position_tolerance_m: Largest distance that still counts [m].
        rotation_tolerance_rad: Largest angle, about whatever axis, that still counts [rad].

    Returns:
        Boolean tensor of shape (num_envs,).
    """
    error = pose_error(env, "ee_pose")
    near = error[:, :3].norm(dim=1) <= position_tolerance_m
    return near & (error[:, 3:].norm(dim=1) <= rotation_tolerance_rad)
