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
        robot, terrain = base.scene["robot"], base.scene.terrain
        command = base.command_manager.get_term("base_velocity")
        patches = base.curriculum_manager.cfg.hard_patches.func
        visits = torch.zeros_like(patches.failing)
        for step in range(150):
            hard = (terrain.terrain_levels == HARD[0]) & (terrain.terrain_types == HARD[1])
            pose = robot.data.root_link_pose_w.torch.clone()
            pose[:, :2] = terrain.env_origins[:, :2]
            pose[:, 0] += torch.where(hard, 2.2, 2.8)  # 5 m are asked for
            robot.write_root_pose_to_sim_index(root_pose=pose)
            base.episode_length_buf[:] = base.max_episode_length - 1
            command.vel_command_b[:] = torch.tensor([0.4, 0.3, 0.0])
            ended = env.step(torch.zeros(ROBOTS, 12))[3:]
            assert ended[0].all()
            if step >= 100:
                visits.index_put_((terrain.terrain_levels, terrain.terrain_types), torch.tensor(1.0), accumulate=True)
            stand = terrain.terrain_origins[terrain.terrain_levels, terrain.terrain_types]
            assert torch.equal(terrain.env_origins, stand)
        assert ended[1]["log"]["Curriculum/hard_patches"] == patches.failing.mean()

        stood = (terrain.terrain_levels.clone(), terrain.terrain_types.clone())
        failing = patches.failing.clone()
        env.reset()  # nobody has taken a step
        assert torch.equal(terrain.terrain_levels, stood[0])
        assert torch.equal(terrain.terrain_types, stood[1])
        assert torch.equal(patches.failing, failing)

    assert failing[HARD] == 1.0
    assert failing.sum() < 10.0, "the other 29 are forgiven their first failures"
    assert visits[HARD] / visits.sum() > 2.0 / len(visits.view(-1)) + 0.05
    assert (visits > 0).all()
