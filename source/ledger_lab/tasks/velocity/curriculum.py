"""Curriculum on rough ground: robots train on all patches, and more often on those where they can learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from isaaclab.managers import CurriculumTermCfg, ManagerTermBase

from ledger_lab.errors import UserError

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv


class FrontierPatches(ManagerTermBase):
    """Draws the patch of a robot's next episode: half uniformly, half from patches where robots sometimes fail.

    The weights of the second half are ``p (1 - p)``, where ``p`` is the recent share of failed episodes on the patch. A
    mastered patch teaches little, and so does a patch where all robots fail (*sampling for learnability*, Rutherford et
    al., 2024, arXiv:2408.15099). A robot has failed under the panel's rule: it fell, or its velocity was too far from
    the command at any time of the last ``hold_s``. On gravel, robots stumble for moments, which the velocity at the end
    does not show. A shorter episode without a fall shows neither success nor failure, and is not counted. Isaac Lab's
    ``terrain_levels_vel`` asks only whether a robot walked half of the commanded distance, and moves it by one row per
    episode; here, all kinds of ground are used from the start and stay in use. Each process of a training keeps its own
    statistics.
    """

    def __init__(self, cfg: CurriculumTermCfg, env: ManagerBasedRLEnv) -> None:
        """Start with a failure share of one half.

        Args:
            cfg: The configuration.
            env: An environment on generated terrain.

        Raises:
            UserError: If the reward for keeping to the command is switched off.
        """
        super().__init__(cfg, env)
        rewards, name = env.reward_manager, cfg.params["reward_name"]
        if name not in rewards.active_terms or not rewards.get_term_cfg(name).weight:
            raise UserError(
                f"env.rewards.{name} is switched off, but the curriculum frontier_patches needs it: give it a small "
                "weight, or switch the curriculum off, too (env.curriculum=null)"
            )
        self.failing = torch.full(env.scene.terrain.terrain_origins.shape[:2], 0.5, device=env.device)
        """Recent share of failed episodes, by level and column."""

    def __call__(
        self,
        env: ManagerBasedRLEnv,
        env_ids: torch.Tensor | slice,
        reward_name: str,
        memory: float,
        hold_s: float,
    ) -> torch.Tensor:
        """Count the ended episodes, and draw the next patches of their robots.

        Args:
            env: The environment.
            env_ids: Environments that are reset; those without a step stay on their patch.
            reward_name: The reward for keeping to the command, a :class:`~ledger_lab.tasks.velocity.keeping.Keeping`.
            memory: Factor of an outcome's weight per later episode on the same patch.
            hold_s: Time up to the end in which a robot must keep to its command [s].

        Returns:
            Recent share of failed episodes, mean of all patches.
        """
        ids = torch.arange(env.num_envs, device=env.device)[env_ids]
        stepped = env.episode_length_buf[ids] > 0
        terrain = env.scene.terrain
        keeping, least_s = env.reward_manager.get_term_cfg(reward_name).func, hold_s - 0.5 * env.step_dt
        fell = env.termination_manager.terminated[ids]
        counted = stepped & (fell | (keeping.lived_s[ids] >= least_s))
        failed = counted & (fell | (keeping.kept_s[ids] < least_s))

        columns, failing = self.failing.shape[1], self.failing.view(-1)
        before = terrain.terrain_levels[ids] * columns + terrain.terrain_types[ids]
        episodes = torch.zeros_like(failing).index_add_(0, before, counted.float())
        failures = torch.zeros_like(failing).index_add_(0, before, failed.float())
        remembered = memory**episodes
        failing.copy_(remembered * failing + (1.0 - remembered) * failures / episodes.clamp(min=1.0))

        frontier = failing * (1.0 - failing)
        odds = (1.0 / len(failing) + frontier / frontier.sum().clamp(min=1.0e-6)).cumsum(0)
        # torch.multinomial would make the host wait for a GPU if a single robot resets.
        drawn = torch.searchsorted(odds, torch.rand(len(ids), device=env.device) * odds[-1], right=True)
        patches = torch.where(stepped, drawn.clamp(max=len(failing) - 1), before)
        terrain.terrain_levels[ids], terrain.terrain_types[ids] = patches // columns, patches % columns
        terrain.env_origins[ids] = terrain.terrain_origins[terrain.terrain_levels[ids], terrain.terrain_types[ids]]
        return self.failing.mean()
