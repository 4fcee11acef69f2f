"""Training robots are sent to all patches, and more often to patches on which they sometimes fail; held-out never."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from ledger_lab.panels import load_panel
from tests.fakes.host_waits import host_waits
from tests.fakes.robots import robust, simulated

ROBOTS = 12
FRONTIER = (4, 1)
"""Level and column of a patch."""


@pytest.fixture(scope="module")
def env() -> Iterator[Any]:
    with simulated("LedgerLab-Velocity-Rough-AnymalC", "newton_mujoco", ROBOTS) as env:
        env.reset()
        yield env


def stand(env: Any) -> torch.Tensor:
    """Return level and column of each robot's patch, shape (num_envs, 2), after a look at whether they begin there."""
    terrain = env.unwrapped.scene.terrain
    places = torch.stack([terrain.terrain_levels, terrain.terrain_types], dim=1)
    assert torch.equal(terrain.env_origins, terrain.terrain_origins[places[:, 0], places[:, 1]])
    return places


def test_a_robot_has_failed_if_it_fell_or_has_not_kept_to_its_command(env: Any) -> None:
    base = env.unwrapped
    terrain, term = base.scene.terrain, base.curriculum_manager.cfg.frontier_patches
    ends = [  # lived [s], kept to the command [s], steps, fallen: failed
        (6.0, 6.0, 300, False, False),
        (6.0, 2.0, 300, False, False),
        (6.0, 1.98, 300, False, True),
        (6.0, 0.0, 300, False, True),
        (6.0, 6.0, 300, True, True),
        (1.0, 0.0, 300, True, True),
        (1.98, 1.98, 300, False, None),
        (0.0, 0.0, 0, False, None),
    ]
    count = len(ends)
    ids = torch.arange(count)
    terrain.terrain_levels[:count], terrain.terrain_types[:count] = ids % 5, ids // 5
    terrain.env_origins[:count] = terrain.terrain_origins[ids % 5, ids // 5]
    before, patch = stand(env), (ids % 5, ids // 5)
    keeping = base.reward_manager.get_term_cfg("keeping").func
    keeping.lived_s[:count] = torch.tensor([end[0] for end in ends])
    keeping.kept_s[:count] = torch.tensor([end[1] for end in ends])
    base.episode_length_buf[:count] = torch.tensor([end[2] for end in ends])
    base.termination_manager.terminated[:count] = torch.tensor([end[3] for end in ends])

    memory = term.params["memory"]
    term.func.failing.fill_(0.5)

    base.curriculum_manager.compute(env_ids=ids)

    expected = [0.5 if end[4] is None else memory * 0.5 + (1.0 - memory) * end[4] for end in ends]
    assert torch.allclose(term.func.failing[patch], torch.tensor(expected))
    assert term.func.failing.sum() == pytest.approx(sum(expected) + 0.5 * (30 - count)), "the others are as they were"
    after = stand(env)
    assert not torch.equal(after[: count - 1], before[: count - 1])
    assert torch.equal(after[count - 1 :], before[count - 1 :]), "a robot without a step stays on its patch"


def test_robots_are_rewarded_for_keeping_to_their_command_and_the_time_starts_again_after_a_miss(env: Any) -> None:
    base = env.unwrapped
    command, term = base.command_manager.get_term("base_velocity"), base.reward_manager.get_term_cfg("keeping")
    env.reset()
    assert not term.func.kept_s.any() and not term.func.lived_s.any()
    misses = {1: (0.2, -0.2, 0.0), 2: (0.0, 0.0, 0.3), 3: (0.0, 0.0, -0.3)}
    keeps = {4: (0.17, -0.17, 0.24), 5: (0.0, 0.0, 0.0)}
    for errors in (keeps, misses | keeps):
        command.vel_command_b[:] = command._mean_velocity
        for robot, error in errors.items():
            command.vel_command_b[robot] += torch.tensor(error)
        rewards = term.func(base, **term.params)
    assert rewards[:6].tolist() == [1, 0, 0, 0, 1, 1]
    assert torch.allclose(term.func.kept_s[:6], rewards[:6] * 2 * base.step_dt)
    assert torch.allclose(term.func.lived_s, torch.tensor(2 * base.step_dt))


def test_reward_and_curriculum_ask_what_the_panel_asks(env: Any) -> None:
    from ledger_lab.panels.predicate import resolve_success

    panel, base = load_panel("velocity_rough_anymal_c_v1"), env.unwrapped
    params = base.reward_manager.get_term_cfg("keeping").params
    assert params == {"command_name": "base_velocity", **panel.success_params}
    assert base.curriculum_manager.cfg.frontier_patches.params["hold_s"] == panel.hold_s
    assert base.cfg.episode_length_s == panel.episode_length_s
    command, rewards = base.command_manager.get_term("base_velocity"), base.reward_manager.get_term_cfg("keeping")
    errors = torch.linspace(0.0, 0.35, ROBOTS)
    command.vel_command_b[:] = command._mean_velocity + torch.stack([errors, errors.flip(0), errors], dim=1)
    keeps = rewards.func(base, **params).bool()
    assert keeps.any() and not keeps.all()
    assert torch.equal(keeps, resolve_success(panel)(base, **panel.success_params))


def test_an_episode_is_judged_with_its_last_step_and_by_the_command_that_it_had(env: Any) -> None:
    base = env.unwrapped
    terrain, failing = base.scene.terrain, base.curriculum_manager.cfg.frontier_patches.func.failing
    env.reset()
    terrain.terrain_levels[:2], terrain.terrain_types[:2] = torch.tensor([1, 2]), 4
    failing.fill_(0.5)
    base.episode_length_buf[:] = 100
    base.episode_length_buf[:2] = base.max_episode_length - 1
    keeping = base.reward_manager.get_term_cfg("keeping").func
    keeping.lived_s[:2], keeping.kept_s[:2] = 5.98, 1.98
    base.command_manager.get_term("base_velocity").vel_command_b[:2] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    env.step(torch.zeros(env.action_space.shape))
    assert failing[1, 4] > 0.5 > failing[2, 4], "one was told to walk and stood, the other was told to stand"
    assert (failing != 0.5).sum() == 2


def test_resets_and_steps_ask_the_device_for_nothing(env: Any) -> None:
    import ledger_lab.tasks.registered

    base = env.unwrapped
    base.episode_length_buf[:] = 100
    with host_waits(ledger_lab.tasks) as waits:
        for count in (1, 3):
            base._reset_idx(torch.arange(count, dtype=torch.int32))
            env.step(torch.zeros(env.action_space.shape))
    assert not waits


def test_half_of_all_are_sent_to_where_robots_sometimes_fail(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    base = env.unwrapped
    term = base.curriculum_manager.cfg.frontier_patches
    monkeypatch.setitem(term.params, "memory", 1.0)
    term.func.failing.zero_()
    term.func.failing[2] = 1.0
    term.func.failing[FRONTIER] = 0.3
    visits = torch.zeros(5, 6)
    for _ in range(300):
        base.episode_length_buf[:] = base.max_episode_length
        base.curriculum_manager.compute(env_ids=torch.arange(ROBOTS))
        places = stand(env)
        visits.index_put_((places[:, 0], places[:, 1]), torch.tensor(1.0), accumulate=True)
    share = visits / visits.sum()
    assert share[FRONTIER] == pytest.approx(0.5 + 0.5 / 30, abs=0.05), "3600 draws: a standard error of 0.8 %"
    share[FRONTIER] = 0.5 / 30
    assert torch.allclose(share, torch.tensor(0.5 / 30), atol=0.012), "where all or nobody fails, as often as elsewhere"


def test_held_out_robots_are_neither_counted_nor_sent(env: Any) -> None:
    from ledger_lab.panels.slots import HeldOutSlots

    base, panel = env.unwrapped, robust("velocity_rough_anymal_c_v1")
    training = ROBOTS - len(panel.episodes)
    failing = base.curriculum_manager.cfg.frontier_patches.func.failing.fill_(0.5)
    with HeldOutSlots(env, panel, training).attached() as slots, torch.inference_mode():
        slots.reset()
        counted, before = failing.clone(), stand(env)
        base.episode_length_buf[:training] = base.max_episode_length - 1
        for _ in range(3):
            slots.step(torch.zeros(training, 12))
        after = stand(env)
        assert torch.equal(failing, counted), "episodes of three steps show nothing"
        base.reward_manager.get_term_cfg("keeping").func.lived_s[:training] = 5.98
        base.episode_length_buf[:training] = base.max_episode_length - 1
        slots.step(torch.zeros(training, 12))
        assert not torch.equal(failing, counted), "training robots are counted"
        after = stand(env)
        assert torch.equal(after[training:], before[training:])

        counted = failing.clone()
        slots.begin([lambda _: torch.zeros(len(panel.episodes), 12)])
        placed = stand(env)
        assert len(placed[training:].unique(dim=0)) == 1, "they have one seed"
        while not slots.idle:
            base.episode_length_buf[:training] = 1  # nobody else's episode ends
            slots.step(torch.zeros(training, 12))
        assert torch.equal(failing, counted)
        assert torch.equal(stand(env), torch.cat([after[:training], placed[training:]]))
