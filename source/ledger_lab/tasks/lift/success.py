"""Success of lifting an object to its goal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ledger_lab.tasks.lift.terms import object_to_goal

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def at_goal(env: ManagerBasedRLEnv, tolerance_m: float) -> torch.Tensor:
    """Tell in which environments the object's center is at the commanded position now.

    Goals are in the air, so an object that stays there is held.

    Args:
        env: The environment.
        tolerance_m: Largest allowed distance [m].

    Returns:
        Boolean tensor of shape (num_envs,).
    """
    return object_to_goal(env, "object_pose").norm(dim=1) <= tolerance_m
