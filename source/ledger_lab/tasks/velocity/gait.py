"""Phase of a trot: a robot that observes it learns sooner to lift its feet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from isaaclab.managers import SceneEntityCfg

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def gait_phase(env: ManagerBasedRLEnv, period_s: float) -> torch.Tensor:
    """Return the phase of the gait; each episode starts with phase zero.

    Args:
        env: The environment.
        period_s: Length of a cycle [s].

    Returns:
        Sine and cosine, shape (num_envs, 2).
    """
    angle = (2 * math.pi * env.step_dt / period_s) * env.episode_length_buf
    return torch.stack([angle.sin(), angle.cos()], dim=1)


def in_step(
    env: ManagerBasedRLEnv, period_s: float, command_name: str, standing: float, sensor_cfg: SceneEntityCfg
) -> torch.Tensor:
    """Reward feet that are on the ground and in the air in their phases.

    In the first half of a cycle, the left front foot and the right hind foot are on the ground; in the second half, the
    other two. A robot commanded to stand keeps all feet on the ground.

    Args:
        env: The environment.
        period_s: Length of a cycle [s].
        command_name: The commanded velocity.
        standing: Norm of a command below which the robot should stand [m/s, rad/s].
        sensor_cfg: The feet: left front, right front, left hind, right hind.

    Returns:
        Share of feet in their phase, shape (num_envs,).
    """
    touching = env.scene.sensors[sensor_cfg.name].data.current_contact_time.torch[:, sensor_cfg.body_ids] > 0.0
    first = gait_phase(env, period_s)[:, :1] >= 0.0
    told_to_stand = env.command_manager.get_command(command_name).norm(dim=1, keepdim=True) < standing
    bearing = torch.cat([first, ~first, ~first, first], dim=1) | told_to_stand
    return (touching == bearing).float().mean(dim=1)
