"""Curriculum on rough ground: robots train on all patches, and more often on those where they can learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.managers import CurriculumTermCfg, ManagerTermBase, SceneEntityCfg

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_ROBOT = SceneEntityCfg("robot")


class FrontierPatches(ManagerTermBase):
    """Draws the patch of a robot's next episode: half uniformly, half from patches where robots sometimes fail.

    The weights of the second half are ``p (1 - p)``, where ``p`` is the recent share of failed episodes on the patch. A
    mastered patch teaches little, and so does a patch where all robots fail (*sampling for learnability*, Rutherford et
    al., 2024, arXiv:2408.15099). As in Isaac Lab's ``terrain_levels_vel``, a robot has failed if it walked less than
    half of the commanded distance, unless it walked half a patch; here, it has also failed if it fell. Isaac Lab's term
    moves a robot by one row per episode; here, all kinds of ground are used from the start and stay in use. Each
    process of a training keeps its own statistics.
    """

    def __init__(self, cfg: CurriculumTermCfg, env: ManagerBasedRLEnv) -> None:
        """Start with a failure share of one half.

        Args:
            cfg: The configuration.
            env: An environment on generated terrain.
        """
        super().__init__(cfg, env)
        self.failing = torch.full(env.scene.terrain.terrain_origins.shape[:2], 0.5, device=env.device)
        """Recent share of failed episodes, by level and column."""

    def __call__(
        self,
        env: ManagerBasedRLEnv,
        env_ids: torch.Tensor | slice,
        command_name: str,
        memory: float,
        asset_cfg: SceneEntityCfg = _ROBOT,
    ) -> torch.Tensor:
        """Count the ended episodes, and draw the next patches of their robots.

        Args:
            env: The environment.
            env_ids: Environments that are reset; those without a step stay on their patch.
            command_name: The commanded velocity, a
                :class:`~ledger_lab.tasks.velocity.commands.TrackedVelocityCommand`.
            memory: Factor of an outcome's weight per later episode on the same patch.
            asset_cfg: The robot.

        Returns:
            Recent share of failed episodes, mean of all patches.
        """
        ids = torch.arange(env.num_envs, device=env.device)[env_ids]
        stepped = env.episode_length_buf[ids] > 0
        terrain = env.scene.terrain
        way = env.scene[asset_cfg.name].data.root_pos_w.torch[ids, :2] - terrain.env_origins[ids, :2]
        asked = 0.5 * env.command_manager.get_term(command_name).commanded_m[ids]
        off_the_patch = 0.5 * terrain.cfg.terrain_generator.size[0]
        asked = asked.masked_fill(env.termination_manager.terminated[ids], off_the_patch).clamp(max=off_the_patch)
        failed = stepped & (way.norm(dim=1) < asked)

        columns, failing = self.failing.shape[1], self.failing.view(-1)
        before = terrain.terrain_levels[ids] * columns + terrain.terrain_types[ids]
        episodes = torch.zeros_like(failing).index_add_(0, before, stepped.float())
        failures = torch.zeros_like(failing).index_add_(0, before, failed.float())
        kept = memory**episodes
        failing.copy_(kept * failing + (1.0 - kept) * failures / episodes.clamp(min=1.0))

        frontier = failing * (1.0 - failing)
        odds = (1.0 / len(failing) + frontier / frontier.sum().clamp(min=1.0e-6)).cumsum(0)
        # torch.multinomial would make the host wait for a GPU if a single robot resets.
        drawn = torch.searchsorted(odds, torch.rand(len(ids), device=env.device) * odds[-1], right=True)
        patches = torch.where(stepped, drawn.clamp(max=len(failing) - 1), before)
        terrain.terrain_levels[ids], terrain.terrain_types[ids] = patches // columns, patches % columns
        terrain.env_origins[ids] = terrain.terrain_origins[terrain.terrain_levels[ids], terrain.terrain_types[ids]]
        return self.failing.mean()
