"""Where robots are sent after an episode on rough ground: to all patches, and more often to those where they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.managers import CurriculumTermCfg, ManagerTermBase, SceneEntityCfg

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_ROBOT = SceneEntityCfg("robot")


class HardPatches(ManagerTermBase):
    """Draws the patch of a robot's next episode: half evenly from all, half as often as robots failed there of late.

    As in Isaac Lab's ``terrain_levels_vel``, a robot has failed if it came less than half as far as its command asks
    for and is still on its patch; or if it has fallen. That term moves a robot by one row an episode, and what is
    mastered is met no more; here no kind of ground waits for the easier ones, and none is forgotten. Each process of a
    training keeps its own count, and one that is resumed counts anew.
    """

    def __init__(self, cfg: CurriculumTermCfg, env: ManagerBasedRLEnv) -> None:
        """Expect failure everywhere.

        Args:
            cfg: The configuration.
            env: An environment on generated terrain, whose commands last for at least an episode.
        """
        super().__init__(cfg, env)
        self.failing = torch.ones(env.scene.terrain.terrain_origins.shape[:2], device=env.device)
        """Share of episodes that failed of late, by level and column."""

    def __call__(
        self,
        env: ManagerBasedRLEnv,
        env_ids: torch.Tensor | slice,
        command_name: str,
        memory: float,
        asset_cfg: SceneEntityCfg = _ROBOT,
    ) -> torch.Tensor:
        """Count the episodes that end, and send their robots somewhere.

        Args:
            env: The environment.
            env_ids: Environments that are reset; those that have not taken a step stay where they are.
            command_name: The commanded velocity.
            memory: What an episode's outcome still weighs after one more on the same patch.
            asset_cfg: The robot.

        Returns:
            Share of episodes that failed of late, mean of all patches.
        """
        terrain = env.scene.terrain
        ids = torch.arange(env.num_envs, device=env.device)[env_ids]
        ids = ids[env.episode_length_buf[ids] > 0]
        way = env.scene[asset_cfg.name].data.root_pos_w.torch[ids, :2] - terrain.env_origins[ids, :2]
        speed = env.command_manager.get_command(command_name)[ids, :2].norm(dim=1)
        asked = speed * env.episode_length_buf[ids] * env.step_dt
        patch_size = terrain.cfg.terrain_generator.size[0]
        failed = way.norm(dim=1) < (0.5 * asked).clamp(max=0.5 * patch_size)
        failed |= env.termination_manager.terminated[ids]

        columns, failing = self.failing.shape[1], self.failing.view(-1)
        patches = terrain.terrain_levels[ids] * columns + terrain.terrain_types[ids]
        episodes = torch.bincount(patches, minlength=len(failing))
        failures = torch.bincount(patches, weights=failed.float(), minlength=len(failing))
        kept = memory**episodes
        failing.copy_(kept * failing + (1.0 - kept) * failures / episodes.clamp(min=1))

        odds = 1.0 / len(failing) + failing / failing.sum().clamp(min=1.0e-6)
        drawn = torch.multinomial(odds, max(1, len(ids)), replacement=True)[: len(ids)]
        terrain.terrain_levels[ids], terrain.terrain_types[ids] = drawn // columns, drawn % columns
        terrain.env_origins[ids] = terrain.terrain_origins[terrain.terrain_levels[ids], terrain.terrain_types[ids]]
        return self.failing.mean()
