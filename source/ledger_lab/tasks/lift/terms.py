"""Observations, rewards and terminations of the lifting tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.managers import SceneEntityCfg
from isaaclab.utils.math import matrix_from_quat, quat_apply_inverse

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

FINGERTIPS_M = 0.1034
"""Distance from the hand to the point between the fingertips, along the hand's z axis [m]."""


def fingertips_to_object(env: ManagerBasedRLEnv, hand: SceneEntityCfg) -> torch.Tensor:
    """Return the offset of the object from the point between the fingertips, in the frame of the robot's base.

    Args:
        env: The environment.
        hand: The robot, and its one body that carries the fingers.

    Returns:
        Shape (num_envs, 3) [m].
    """
    data = env.scene[hand.name].data
    pose = data.body_link_pose_w.torch[:, hand.body_ids].squeeze(1)
    between = pose[:, :3] + FINGERTIPS_M * matrix_from_quat(pose[:, 3:7])[..., 2]
    missing = env.scene["object"].data.root_link_pos_w.torch - between
    return quat_apply_inverse(data.root_link_pose_w.torch[:, 3:7], missing)


def object_position(env: ManagerBasedRLEnv) -> torch.Tensor:
    """Return the position of the object in the frame of the robot's base.

    Returns:
        Shape (num_envs, 3) [m].
    """
    base = env.scene["robot"].data.root_link_pose_w.torch
    return quat_apply_inverse(base[:, 3:7], env.scene["object"].data.root_link_pos_w.torch - base[:, :3])


def object_to_goal(env: ManagerBasedRLEnv, command_name: str) -> torch.Tensor:
    """Return the offset of the commanded position from the object, in the frame of the robot's base.

    Args:
        env: The environment.
        command_name: Name of a ``UniformPoseCommand``, whose orientation is ignored.

    Returns:
        Shape (num_envs, 3) [m].
    """
    return env.command_manager.get_command(command_name)[:, :3] - object_position(env)


def near_object(
    env: ManagerBasedRLEnv, std: float, opening_m: float, hand: SceneEntityCfg, fingers: SceneEntityCfg
) -> torch.Tensor:
    """Reward fingertips around the object: 1 at the object, decreasing over ``std``; 0 if the fingers are too narrow.

    Args:
        env: The environment.
        std: Distance over which the reward decreases [m].
        opening_m: Distance between the fingers below which they are too narrow [m].
        hand: The robot, and its one body that carries the fingers.
        fingers: The joints of both fingers.

    Returns:
        Shape (num_envs,).
    """
    wide = env.scene[hand.name].data.joint_pos.torch[:, fingers.joint_ids].sum(dim=1) >= opening_m
    return wide * (1.0 - torch.tanh(fingertips_to_object(env, hand).norm(dim=1) / std))


def pointing_down(env: ManagerBasedRLEnv, hand: SceneEntityCfg) -> torch.Tensor:
    """Reward a hand that points down: 1 if it points down, 0 if it is level, -1 if it points up.

    Returns:
        Shape (num_envs,).
    """
    x, y = env.scene[hand.name].data.body_link_pose_w.torch[:, hand.body_ids, 3:5].squeeze(1).unbind(1)
    return 2.0 * (x * x + y * y) - 1.0  # minus the height of the hand's own z axis


def grasped(
    env: ManagerBasedRLEnv, within_m: float, opening_m: float, hand: SceneEntityCfg, fingers: SceneEntityCfg
) -> torch.Tensor:
    """Tell in which environments closed fingers hold the object.

    Args:
        env: The environment.
        within_m: Largest distance between the object's center and the point between the fingertips [m].
        opening_m: Largest distance between the fingers [m], a little more than the object is wide.
        hand: The robot, and its one body that carries the fingers.
        fingers: The joints of both fingers.

    Returns:
        Shape (num_envs,), 1.0 or 0.0.
    """
    near = fingertips_to_object(env, hand).norm(dim=1) <= within_m
    opening = env.scene[fingers.name].data.joint_pos.torch[:, fingers.joint_ids].sum(dim=1)
    return (near & (opening <= opening_m)).float()


def lifted(env: ManagerBasedRLEnv, minimal_height: float) -> torch.Tensor:
    """Tell in which environments the object's center is above a height [m].

    Returns:
        Shape (num_envs,), 1.0 or 0.0.
    """
    return (object_position(env)[:, 2] > minimal_height).float()


def near_goal(env: ManagerBasedRLEnv, std: float, minimal_height: float, command_name: str) -> torch.Tensor:
    """Reward a lifted object near its goal: 1 at the goal, decreasing over ``std`` [m].

    Returns:
        Shape (num_envs,).
    """
    distance = object_to_goal(env, command_name).norm(dim=1)
    return lifted(env, minimal_height) * (1.0 - torch.tanh(distance / std))


def out_of_reach(env: ManagerBasedRLEnv, radius_m: float) -> torch.Tensor:
    """Tell in which environments the object is farther from the base than a radius [m], along the ground.

    Returns:
        Boolean, shape (num_envs,).
    """
    return object_position(env)[:, :2].norm(dim=1) > radius_m
