"""Goal poses among the pillars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from isaaclab.envs.mdp import UniformPose2dCommand, UniformPose2dCommandCfg
from isaaclab.utils import configclass

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedEnv


class NeighbourPoseCommand(UniformPose2dCommand):
    """Isaac Lab's pose command on the ground, with goals in the eight cells around the robot's first cell."""

    cfg: NeighbourPoseCommandCfg

    def __init__(self, cfg: NeighbourPoseCommandCfg, env: ManagerBasedEnv) -> None:
        """Start without goals.

        Args:
            cfg: The configuration.
            env: The environment.
        """
        super().__init__(cfg, env)
        steps = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if (x, y) != (0, 0)]
        self._neighbours = cfg.cell_m * torch.tensor(steps, dtype=torch.float32, device=self.device)

    def _resample_command(self, env_ids: Sequence[int]) -> None:
        """Draw goals near the centers of cells, and headings."""
        origins = self._env.scene.env_origins[env_ids]
        start = (self.robot.data.root_pos_w.torch[env_ids] - origins)[:, :2]
        ranges, count = self.cfg.ranges, len(start)
        drawn = torch.empty(count, device=self.device)
        aside = torch.stack([drawn.uniform_(*ranges.pos_x).clone(), drawn.uniform_(*ranges.pos_y).clone()], dim=1)
        toward = self._neighbours[torch.randint(len(self._neighbours), (count,), device=self.device)]
        cell = self.cfg.cell_m * torch.round(start / self.cfg.cell_m)
        self.pos_command_w[env_ids] = origins + self.robot.data.default_root_pose.torch[env_ids, :3]
        self.pos_command_w[env_ids, :2] = origins[:, :2] + cell + toward + aside
        self.heading_command_w[env_ids] = drawn.uniform_(*ranges.heading)
        self._update_command()  # Isaac Lab's own reset shows the goal of the previous episode


@configclass
class NeighbourPoseCommandCfg(UniformPose2dCommandCfg):
    """Configuration of :class:`NeighbourPoseCommand`; ``ranges`` are relative to the center of a cell."""

    class_type: type = NeighbourPoseCommand
    simple_heading: bool = False
    cell_m: float = 1.0
    """Width of a cell [m]; the origin of an environment is the center of a cell."""
