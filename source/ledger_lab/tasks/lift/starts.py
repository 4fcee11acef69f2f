"""Initial states for a curriculum: the object is between the fingers, or the hand is on the way to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from isaaclab.managers import EventTermCfg, ManagerTermBase, SceneEntityCfg
from isaaclab.utils.math import quat_apply_inverse

from ledger_lab.tasks.lift.arm import Arm
from ledger_lab.tasks.lift.terms import FINGERTIPS_M

if TYPE_CHECKING:
    from isaaclab.assets import Articulation
    from isaaclab.envs import ManagerBasedRLEnv


class BeginAtObject(ManagerTermBase):
    """Start some episodes with the object held in the air, and some with open fingers on the way to it.

    The hand keeps its orientation at the arm's default pose.
    """

    def __init__(self, cfg: EventTermCfg, env: ManagerBasedRLEnv) -> None:
        """Read the arm's kinematics.

        Args:
            cfg: The configuration of the event.
            env: The environment.
        """
        super().__init__(cfg, env)
        hand: SceneEntityCfg = cfg.params["hand"]
        robot: Articulation = env.scene[hand.name]
        self._arm = Arm(robot.cfg.prim_path, robot.body_names[hand.body_ids[0]], FINGERTIPS_M, env.device)
        self._joints = torch.tensor([robot.joint_names.index(name) for name in self._arm.joints], device=env.device)
        self._default = robot.data.default_joint_pos.torch[:1, self._joints]
        self._home, self._rotation = self._arm.fingertips(self._default)

    def __call__(
        self,
        env: ManagerBasedRLEnv,
        env_ids: torch.Tensor | slice,
        share: float,
        held_share: float,
        height_m: tuple[float, float],
        width_m: float,
        hand: SceneEntityCfg,
        fingers: SceneEntityCfg,
        asset_cfg: SceneEntityCfg = SceneEntityCfg("object"),  # noqa: B008 - as Isaac Lab's own events have it
    ) -> None:
        """Set the initial states of some episodes; the others stay as earlier events left them.

        Args:
            env: The environment.
            env_ids: Environments that reset.
            share: Share of episodes that start this way, 0..1.
            held_share: Share of these in which the object is held in the air. In the others, it lies on the ground, and
                the open fingers are anywhere between the object and their place at the arm's default pose.
            height_m: Smallest and largest height at which the object is held [m].
            width_m: Distance between the fingers when they hold it [m].
            hand: The robot, and its one body that carries the fingers.
            fingers: The joints of both fingers.
            asset_cfg: The object.
        """
        ids = torch.arange(env.num_envs, device=env.device)[env_ids]
        drawn = torch.rand(len(ids), 3, device=env.device)  # whether this way, whether held, how far
        if share <= 0.0:
            return
        chosen, held = drawn[:, 0] < share, drawn[:, 1] < held_share
        robot, item = env.scene[hand.name], env.scene[asset_cfg.name]
        pose = item.data.root_link_pose_w.torch[ids].clone()
        pose[:, 2] += (chosen & held) * (height_m[0] + (height_m[1] - height_m[0]) * drawn[:, 2])
        item.write_root_pose_to_sim_index(root_pose=pose, env_ids=ids)
        base = robot.data.root_link_pose_w.torch[ids]
        place = quat_apply_inverse(base[:, 3:7], pose[:, :3] - base[:, :3])
        place += (~held * drawn[:, 2]).unsqueeze(1) * (self._home - place)
        joints = self._arm.reach(self._default.expand(len(ids), -1), place, self._rotation.expand(len(ids), 3, 3))
        limits = robot.data.soft_joint_pos_limits.torch[ids][:, self._joints]
        _place(robot, joints.clamp(limits[..., 0], limits[..., 1]), self._joints, ids, chosen)
        opening = robot.data.default_joint_pos.torch[ids][:, fingers.joint_ids]
        _place(robot, torch.where(held.unsqueeze(1), 0.5 * width_m, opening), fingers.joint_ids, ids, chosen)


def share_of_starts(env: ManagerBasedRLEnv, env_ids: Sequence[int], term_name: str, share: float) -> float:
    """Curriculum: set the share of training episodes that start this way; held-out ones stay as configured.

    Args:
        env: The environment.
        env_ids: Environments that reset.
        term_name: The event, a :class:`BeginAtObject`.
        share: Share of all episodes, 0..1.

    Returns:
        The share, for the log.
    """
    env.event_manager.get_term_cfg(term_name).params["share"] = share
    return share


def _place(
    robot: Articulation, positions: torch.Tensor, joints: torch.Tensor, ids: torch.Tensor, chosen: torch.Tensor
) -> None:
    """Set joint positions, at rest, in the chosen rows; the others stay.

    All rows are written, because the host would wait for a GPU to learn which ones are chosen.
    """
    rows, now, moving = chosen.unsqueeze(1), robot.data.joint_pos.torch, robot.data.joint_vel.torch
    positions = torch.where(rows, positions, now[ids][:, joints])
    velocities = moving[ids][:, joints].masked_fill(rows, 0.0)
    robot.write_joint_position_to_sim_index(position=positions, joint_ids=joints, env_ids=ids)
    robot.write_joint_velocity_to_sim_index(velocity=velocities, joint_ids=joints, env_ids=ids)
