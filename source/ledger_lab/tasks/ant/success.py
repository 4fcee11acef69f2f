"""Success of the ant, and of other robots that walk along +x."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def walked(env: ManagerBasedRLEnv, distance_m: float) -> torch.Tensor:
    """Tell which torsos are far enough along +x from the slot's origin, where every episode starts.

    Args:
        env: The environment.
        distance_m: Smallest distance along +x that counts [m].

    Returns:
        Boolean tensor of shape (num_envs,).
    """
    moved = env.scene["robot"].data.root_pos_w.torch - env.scene.env_origins
    return moved[:, 0] >= distance_m
