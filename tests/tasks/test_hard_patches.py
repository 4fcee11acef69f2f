"""Robots on rough ground are sent everywhere, and more often to where they fail."""

from __future__ import annotations

import torch

from tests.fakes.robots import simulated

ROBOTS = 12
HARD = (4, 1)
"""The level and column of the only patch that robots fail on here."""


def test_half_of_all_episodes_are_where_robots_fail_and_the_others_are_everywhere() -> None:
    with simulated("LedgerLab-Velocity-Rough-AnymalC", "newton_mjwarp", ROBOTS) as env:
        base = env.unwrapped
        env.reset()
        terrain, command = base.scene.terrain, base.command_manager.get_term("base_velocity")
        patches = base.curriculum_manager.cfg.hard_patches.func
        visits = torch.zeros_like(patches.failing)
        for step in range(150):
            hard = (terrain.terrain_levels == HARD[0]) & (terrain.terrain_types == HARD[1])
            command._mean_velocity[:] = command.vel_command_b + torch.where(hard, 0.3, 0.0)[:, None]
            base.episode_length_buf[:] = base.max_episode_length - 1
            log = env.step(torch.zeros(ROBOTS, 12))[4]["log"]
            if step >= 100:
                visits.index_put_((terrain.terrain_levels, terrain.terrain_types), torch.tensor(1.0), accumulate=True)
            assert torch.equal(
                terrain.env_origins, terrain.terrain_origins[terrain.terrain_levels, terrain.terrain_types]
            )
        assert log["Curriculum/hard_patches"] == patches.failing.mean()

        stand = (terrain.terrain_levels.clone(), terrain.terrain_types.clone())
        failing = patches.failing.clone()
        env.reset()  # nobody has taken a step
        assert torch.equal(terrain.terrain_levels, stand[0])
        assert torch.equal(terrain.terrain_types, stand[1])
        assert torch.equal(patches.failing, failing)

    assert failing[HARD] == 1.0
    assert failing.sum() < 10.0, "the other 29 are forgiven their first failures"
    assert visits[HARD] / visits.sum() > 2.0 / len(visits.view(-1)) + 0.05
    assert (visits > 0).all()
