"""Observation and reward of the pendulum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv
    from isaaclab.managers import SceneEntityCfg


def direction(env: ManagerBasedRLEnv, asset_cfg: SceneEntityCfg) -> torch.Tensor:
    """Sine and cosine of the hinge's angle; tensor of shape (num_envs, 2)."""
    angle = env.scene[asset_cfg.name].data.joint_pos.torch[:, asset_cfg.joint_ids]
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def height(env: ManagerBasedRLEnv, asset_cfg: SceneEntityCfg) -> torch.Tensor:
    """Height of the rod's tip, from -1 at the bottom to 1 at the top; tensor of shape (num_envs,)."""
    return env.scene[asset_cfg.name].data.joint_pos.torch[:, asset_cfg.joint_ids].cos().squeeze(-1)
