"""The gripper lifts the cube, which is told apart at its goal, just beside it, and on the ground."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from ledger_lab.panels import load_panel
from tests.fakes.host_waits import host_waits
from tests.fakes.robots import ENGINES, Repeats, Shaken, Told, robust, shaken, simulated, taken_twice, told

PANEL = load_panel("lift_cube_franka_v1")
TOLERANCE_M = PANEL.success_params["tolerance_m"]
ENVS = 15
BESIDE = [(0.0, True), (0.9 * TOLERANCE_M, True), (1.1 * TOLERANCE_M, False), (0.3, False)]
"""Goals beside the first cubes: how far [m], and whether it counts as there."""
DOWN = (0.0, 0.4875, 0.0, -2.3576, 0.0, 2.8451, 0.7854)
"""Joint positions [rad] with the point between the fingertips in the middle of a cube at its default place."""
UP = (0.0, -0.1585, 0.0, -2.1923, 0.0, 2.0337, 0.7854)
"""The same, 33 cm higher."""
OPEN, CLOSED = 1.0, -1.0
HELD_M = (0.5, 0.0, 0.35)
"""Where the cube is then, from the base."""


@dataclass(frozen=True)
class Observed:
    """What was seen of a few arms, each with its cube."""

    shaken: Shaken
    told: list[Told]
    masses_kg: torch.Tensor
    """Of the cubes, shape (num_envs,)."""
    at_goal: list[bool]
    """What the success function says with the goals of :data:`BESIDE`."""
    out_of_reach: list[bool]
    """Whether the cube's place ends the episode, with the second cube 1 m before its base."""
    grasped: list[list[float]]
    """Rewards for a grasp: with the hand around the cube, open, then closed, then closed elsewhere."""
    reached: list[list[float]]
    """Rewards for being near it, at the same moments."""
    lifted_m: torch.Tensor
    """Where the cubes are from their bases after they were lifted; shape (num_envs, 3)."""
    held: list[list[bool]]
    """What the success function says then, a second later, and after the gripper has opened."""
    begun: torch.Tensor
    """Where the curriculum has all episodes begin with the cube or on the way to it: how much of the way is left, how
    far off it the fingertips are, the cube's height, the fingers' opening, and the cube's height after they were closed
    for half a second, the first a share, the others [m]; shape (num_envs, 5)."""
    mixed_m: torch.Tensor
    """Where it has half of the episodes begin so, for how far the fingertips are from their place at the arm's default
    pose [m]; shape (num_envs,)."""
    waits: list[str]
    """What would make the host wait for a GPU in that reset, and in a step."""
    repeats: Repeats


def observe(physics: str) -> Observed:
    """Reset and shake arms, push a cube away, and lift all cubes."""
    import ledger_lab.tasks.registered
    from ledger_lab.panels.predicate import resolve_success
    from ledger_lab.tasks.lift.terms import fingertips_to_object, object_position

    with simulated(PANEL.task, physics, ENVS) as env:
        base = env.unwrapped
        robot, cube = base.scene["robot"], base.scene["object"]
        (starts,) = base.curriculum_manager._term_cfgs
        seen, commands = shaken(env), told(env)
        command = base.command_manager.get_term("object_pose")

        def there() -> list[bool]:
            answers: list[bool] = resolve_success(PANEL)(base, **PANEL.success_params).tolist()
            return answers

        event = base.event_manager.get_term_cfg("begin_at_object").params
        starts.params["share"] = 0.0
        env.reset()
        home = object_position(base) - fingertips_to_object(base, event["hand"])
        starts.params["share"] = 1.0
        env.reset()
        cubes, missing = object_position(base).clone(), fingertips_to_object(base, event["hand"])
        way, height = cubes - home, cubes[:, 2]
        left = (missing * way).sum(dim=1) / way.square().sum(dim=1)
        missed = (missing - left.unsqueeze(1) * way).norm(dim=1)
        opening = robot.data.joint_pos.torch[:, event["fingers"].joint_ids].sum(dim=1)
        for _ in range(round(0.5 / base.step_dt)):
            env.step(torch.cat([torch.zeros(ENVS, 7), torch.full((ENVS, 1), CLOSED)], dim=1))
        begun = torch.stack([left, missed, height, opening, object_position(base)[:, 2]], dim=1)

        starts.params["share"] = 0.5
        with host_waits(ledger_lab.tasks) as waits:
            base._reset_idx(torch.arange(ENVS, dtype=torch.int32))
        mixed = (fingertips_to_object(base, event["hand"]) + home - object_position(base)).norm(dim=1)
        with host_waits(ledger_lab.tasks) as more_waits:
            env.step(torch.zeros(env.action_space.shape))

        starts.params["share"] = 0.0
        env.reset()
        command.pose_command_b[:, :3] = object_position(base)
        command.pose_command_b[: len(BESIDE), 2] += torch.tensor([distance for distance, _ in BESIDE])
        beside = there()[: len(BESIDE)]

        pose = cube.data.root_link_pose_w.torch.clone()
        pose[1, 0] = base.scene.env_origins[1, 0] + 1.0
        cube.write_root_pose_to_sim_index(root_pose=pose)
        env.step(torch.zeros(env.action_space.shape))
        away = base.termination_manager.get_term("object_out_of_reach").tolist()

        env.reset()
        pose = cube.data.default_root_pose.torch.clone()
        pose[:, :3] += base.scene.env_origins
        cube.write_root_pose_to_sim_index(root_pose=pose)
        command.pose_command_b[:, :3] = torch.tensor(HELD_M)
        terms = [base.reward_manager.active_terms.index(name) for name in ("grasping_object", "reaching_object")]

        def move(joints: tuple[float, ...], grip: float, seconds: float) -> list[list[float]]:
            """Pull the arm to joint positions, and return what the grasp and being near are worth then."""
            for _ in range(round(seconds / base.step_dt)):
                pull = ((torch.tensor(joints) - robot.data.joint_pos.torch[:, :7]) / 0.2).clamp(-2.0, 2.0)
                env.step(torch.cat([pull, torch.full((len(pull), 1), grip)], dim=1))
            worth: list[list[float]] = base.reward_manager._step_reward[:, terms].T.tolist()
            return worth

        worth = [move(DOWN, OPEN, 1.2), move(DOWN, CLOSED, 0.4)]
        move(UP, CLOSED, 1.2)
        lifted, held = object_position(base).clone(), [there()]
        move(UP, CLOSED, 1.0)
        held.append(there())
        move(UP, OPEN, 0.5)
        held.append(there())
        worth.append(move(UP, CLOSED, 0.3))
        grasped, reached = ([each[term] for each in worth] for term in range(2))
        masses = cube.data.body_mass.torch.clone().flatten()
        repeats = taken_twice(env, robust(PANEL.name))
        found = (mixed, [*waits, *more_waits], repeats)
        return Observed(seen, commands, masses, beside, away, grasped, reached, lifted, held, begun, *found)


@pytest.fixture(scope="module", params=ENGINES)
def seen(request: pytest.FixtureRequest) -> tuple[str, Observed]:
    return request.param, observe(request.param)


def test_the_task_fits_the_arm_and_the_cube(seen: tuple[str, Observed]) -> None:
    seen[1].shaken.check(observations=42, actions=8)
    assert torch.allclose(seen[1].masses_kg, torch.full((ENVS,), 0.1))


def test_the_motors_are_told_what_a_contract_says(seen: tuple[str, Observed]) -> None:
    assert [each.said["law"] for each in seen[1].told] == ["affine", "binary"]
    for each in seen[1].told:
        assert torch.allclose(each.sent, each.lawful, rtol=0.0, atol=1e-6)
    gripper = seen[1].told[1].sent
    assert len(gripper.unique()) == 2, "some close, some open"


def test_a_cube_is_at_its_goal_within_the_tolerance(seen: tuple[str, Observed]) -> None:
    assert seen[1].at_goal == [there for _, there in BESIDE]


def test_only_the_cube_that_is_pushed_away_is_out_of_reach(seen: tuple[str, Observed]) -> None:
    assert seen[1].out_of_reach == [index == 1 for index in range(ENVS)]


def test_a_grasp_is_a_gripper_closed_on_the_cube(seen: tuple[str, Observed]) -> None:
    before, around, elsewhere = seen[1].grasped
    assert not any(before)
    assert all(worth > 0.0 for worth in around)
    assert not any(elsewhere)


def test_the_closed_gripper_lifts_the_cube_and_holds_it_until_it_opens(seen: tuple[str, Observed]) -> None:
    assert torch.allclose(seen[1].lifted_m, torch.tensor(HELD_M), atol=0.02), "it slides a little"
    assert seen[1].held == [[True] * ENVS, [True] * ENVS, [False] * ENVS]


def test_the_curriculum_has_episodes_begin_with_the_cube_in_the_air_and_on_the_way_to_it(
    seen: tuple[str, Observed],
) -> None:
    left, missed, height, opening, later = seen[1].begun.unbind(1)
    held = height > 0.021
    assert 0 < held.sum() < ENVS
    assert missed.max() < 1e-3 and left[held].abs().max() < 0.01
    assert 0.0 <= left[~held].min() < left[~held].max() - 0.2 and left.max() <= 1.0
    assert torch.allclose(opening, torch.where(held, 0.04, 0.08), atol=1e-4)
    assert torch.allclose(later, height, atol=0.01), "closed fingers hold it where it is"


def test_the_curriculum_leaves_other_episodes_alone_and_asks_a_gpu_for_nothing(seen: tuple[str, Observed]) -> None:
    alone = seen[1].mixed_m < 1e-4
    assert 0 < alone.sum() < ENVS and seen[1].mixed_m[~alone].max() > 0.05
    assert seen[1].waits == []


def test_every_cell_of_the_robustness_panel_is_felt(seen: tuple[str, Observed]) -> None:
    unfelt = {"heavy_cube", "lopsided_cube", "slippery_cube"}  # nobody touches the cube
    seen[1].repeats.check(frozenset(unfelt))
