"""Where robots are sent after an episode on rough ground: to all patches, and more often to those where they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.managers import CurriculumTermCfg, ManagerTermBase

from ledger_lab.tasks.velocity.success import tracks_velocity

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class HardPatches(ManagerTermBase):
    """Draws the patch of a robot's next episode: half evenly from all, half as often as robots failed there of late.

    Isaac Lab's ``terrain_levels_vel`` moves a robot by one row an episode, and what it has mastered it meets no more;
    here nothing is forgotten, and no kind of ground waits for the easier ones. A robot has failed if it has fallen, or
    if its episode ends off the commanded velocity, as panels judge. Each process of a training keeps its own count,
    and one that is resumed counts anew.
    """

    def __init__(self, cfg: CurriculumTermCfg, env: ManagerBasedRLEnv) -> None:
        """Expect failure everywhere.

        Args:
            cfg: The configuration.
            env: An environment on generated terrain.
        """
        super().__init__(cfg, env)
        self.failing = torch.ones(env.scene.terrain.terrain_origins.shape[:2], device=env.device)
        """Share of episodes that failed of late, by level and column."""

    def __call__(
        self,
        env: ManagerBasedRLEnv,
        env_ids: torch.Tensor | slice,
        linear_m_s: float,
        angular_rad_s: float,
        memory: float,
    ) -> torch.Tensor:
        """Count the episodes that end, and send their robots somewhere.

        Args:
            env: The environment.
            env_ids: Environments that are reset; those that have not taken a step stay where they are.
            linear_m_s: Largest error of the horizontal velocity [m/s].
            angular_rad_s: Largest error of the turning rate [rad/s].
            memory: What an episode's outcome still weighs after one more on the same patch.

        Returns:
            Share of episodes that failed of late, mean of all patches.
        """
        ids = torch.arange(env.num_envs, device=env.device)[env_ids]
        ids = ids[env.episode_length_buf[ids] > 0]
        terrain = env.scene.terrain
        columns = self.failing.shape[1]
        patches = terrain.terrain_levels[ids] * columns + terrain.terrain_types[ids]
        failed = env.termination_manager.terminated | ~tracks_velocity(env, linear_m_s, angular_rad_s)
        flat = self.failing.view(-1)
        episodes = torch.bincount(patches, minlength=len(flat))
        failures = torch.bincount(patches, weights=failed[ids].float(), minlength=len(flat))
        kept = memory**episodes
        flat.copy_(kept * flat + (1.0 - kept) * failures / episodes.clamp(min=1))
        odds = 1.0 / len(flat) + flat / flat.sum().clamp(min=1.0e-6)
        drawn = torch.multinomial(odds, max(1, len(ids)), replacement=True)[: len(ids)]
        terrain.terrain_levels[ids], terrain.terrain_types[ids] = drawn // columns, drawn % columns
        terrain.env_origins[ids] = terrain.terrain_origins[terrain.terrain_levels[ids], terrain.terrain_types[ids]]
        return self.failing.mean()
