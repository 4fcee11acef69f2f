"""Observations, rewards and events of the navigating robot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.managers import SceneEntityCfg
from isaaclab.utils.math import quat_from_euler_xyz, sample_uniform, wrap_to_pi

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


def goal(env: ManagerBasedRLEnv, command_name: str) -> torch.Tensor:
    """Return the goal relative to the base, in the horizontal plane.

    Args:
        env: The environment.
        command_name: Name of a ``UniformPose2dCommand``.

    Returns:
        Shape (num_envs, 4): ahead and to the left [m], cosine and sine of the angle to turn by.
    """
    command = env.command_manager.get_command(command_name)
    return torch.cat([command[:, :2], command[:, 3:].cos(), command[:, 3:].sin()], dim=1)


def distances(env: ManagerBasedRLEnv, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Return the distances that a ray caster measures; the reach of its rays where there is no hit.

    Args:
        env: The environment.
        sensor_cfg: The ray caster.

    Returns:
        Shape (num_envs, rays) [m].
    """
    sensor = env.scene.sensors[sensor_cfg.name]
    ways = sensor.data.ray_hits_w.torch - sensor.data.pos_w.torch.unsqueeze(1)
    return ways.norm(dim=2).clamp(max=sensor.cfg.max_distance)


def nearness(env: ManagerBasedRLEnv, sensor_cfg: SceneEntityCfg) -> torch.Tensor:
    """Return the closeness of a ray caster's hits on a logarithmic scale, which resolves near objects better.

    Args:
        env: The environment.
        sensor_cfg: The ray caster.

    Returns:
        Shape (num_envs, rays): 0 at the reach of the rays and where there is no hit, 0.69 at half the reach, and so on;
        at most the value at 1 cm.
    """
    reach = env.scene.sensors[sensor_cfg.name].cfg.max_distance
    return (reach / distances(env, sensor_cfg).clamp(min=0.01)).log()


def approach(env: ManagerBasedRLEnv, command_name: str) -> torch.Tensor:
    """Reward approaching the goal: the rate at which the distance shrinks.

    Over an episode, it adds up to about the decrease of the distance, on any path.

    Args:
        env: The environment.
        command_name: Name of a ``UniformPose2dCommand``.

    Returns:
        Shape (num_envs,) [m/s].
    """
    command = env.command_manager.get_term(command_name)
    data = command.robot.data
    missing = (command.pos_command_w - data.root_pos_w.torch)[:, :2]
    return (missing * data.root_lin_vel_w.torch[:, :2]).sum(dim=1) / missing.norm(dim=1).clamp(min=1.0e-3)


def turning(env: ManagerBasedRLEnv, command_name: str) -> torch.Tensor:
    """Reward turning to the goal's heading: the rate at which the angle shrinks.

    Over an episode, it adds up to about the decrease of the angle, however the robot turned.

    Args:
        env: The environment.
        command_name: Name of a ``UniformPose2dCommand``.

    Returns:
        Shape (num_envs,) [rad/s].
    """
    command = env.command_manager.get_term(command_name)
    data = command.robot.data
    missing = wrap_to_pi(command.heading_command_w - data.heading_w.torch)
    return torch.sign(missing) * data.root_ang_vel_w.torch[:, 2]


def turned_at_goal(env: ManagerBasedRLEnv, command_name: str, std: float, std_rad: float) -> torch.Tensor:
    """Reward the heading near the goal: 1 if base and goal point the same way, less with angle and distance.

    Args:
        env: The environment.
        command_name: Name of a ``UniformPose2dCommand``.
        std: Distance over which the reward decreases [m].
        std_rad: Angle over which the reward decreases [rad].

    Returns:
        Shape (num_envs,).
    """
    command = env.command_manager.get_command(command_name)
    near = 1.0 - torch.tanh(command[:, :2].norm(dim=1) / std)
    return near * (1.0 - torch.tanh(command[:, 3].abs() / std_rad))


def too_near(env: ManagerBasedRLEnv, sensor_cfg: SceneEntityCfg, within_m: float) -> torch.Tensor:
    """Penalize objects nearer than a distance: 0 at that distance, 1 at the center of the base.

    Args:
        env: The environment.
        sensor_cfg: The ray caster.
        within_m: The distance [m].

    Returns:
        Shape (num_envs,).
    """
    return (1.0 - distances(env, sensor_cfg).amin(dim=1) / within_m).clamp(min=0.0)


def reset_in_cell(
    env: ManagerBasedRLEnv,
    env_ids: torch.Tensor | slice,
    cell_m: float,
    cells_per_side: int,
    aside_m: float,
    asset_cfg: SceneEntityCfg = SceneEntityCfg("robot"),  # noqa: B008 - as Isaac Lab's own events have it
) -> None:
    """Place robots near the centers of cells, at rest, with random headings.

    Args:
        env: The environment.
        env_ids: Environments that reset.
        cell_m: Width of a cell [m].
        cells_per_side: Number of cells along x and along y; with an odd number, the middle cell is at the origin.
        aside_m: Largest distance from the center along x and along y [m].
        asset_cfg: The robot.
    """
    robot = env.scene[asset_cfg.name]
    pose = robot.data.default_root_pose.torch[env_ids].clone()
    count, device = len(pose), pose.device
    cell = torch.randint(cells_per_side, (count, 2), device=device) - (cells_per_side - 1) / 2
    aside = sample_uniform(-aside_m, aside_m, (count, 2), device)
    yaw = sample_uniform(-torch.pi, torch.pi, (count,), device)
    pose[:, :3] += env.scene.env_origins[env_ids]
    pose[:, :2] += cell_m * cell + aside
    level = torch.zeros_like(yaw)
    pose[:, 3:] = quat_from_euler_xyz(level, level, yaw)
    robot.write_root_pose_to_sim_index(root_pose=pose, env_ids=env_ids)
    velocity = robot.data.default_root_vel.torch[env_ids].clone()
    robot.write_root_velocity_to_sim_index(root_velocity=velocity, env_ids=env_ids)
