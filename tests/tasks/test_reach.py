"""The arm goes where its motors pull it, and is told apart at its goal, just beside it, and far from it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from ledger_lab.panels import load_panel
from tests.fakes.robots import ENGINES, Repeats, Shaken, Told, robust, shaken, simulated, taken_twice, told

PANEL = load_panel("reach_franka_v1")
POSITION_M, ROTATION_RAD = PANEL.success_params["position_tolerance_m"], PANEL.success_params["rotation_tolerance_rad"]
ENVS = 13
TILT = torch.tensor([0.6, 0.0, 0.8])
"""Axis that goals are turned about from where the hand is."""
BESIDE: list[tuple[float, float, bool]] = [
    (0.0, 0.0, True),
    (0.9 * POSITION_M, 0.9 * ROTATION_RAD, True),
    (1.1 * POSITION_M, 0.0, False),
    (0.0, 1.1 * ROTATION_RAD, False),
    (0.0, 3.0, False),
    (0.3, 1.0, False),
]
"""Goals beside the first hands: how far [m], how much turned [rad], and whether the hand counts as there."""


@dataclass(frozen=True)
class Observed:
    """What was seen of a few arms in a simulation."""

    shaken: Shaken
    told: list[Told]
    goals: torch.Tensor
    """Commands after a reset; shape (num_envs, 7)."""
    reached: list[list[bool]]
    """What the success function says with the goals of :data:`BESIDE`; last with the other quaternion of each."""
    error: torch.Tensor
    """Of the hands' poses after 2 s in which the motors were told the joint positions of the goal; (num_envs, 6)."""
    repeats: Repeats


def turned(pose: torch.Tensor, distances_m: torch.Tensor, angles_rad: torch.Tensor) -> torch.Tensor:
    """Return poses of shape (n, 7), moved along y and turned about :data:`TILT`."""
    from isaaclab.utils.math import quat_from_angle_axis, quat_mul

    moved = pose.clone()
    moved[:, 1] += distances_m
    moved[:, 3:] = quat_mul(quat_from_angle_axis(angles_rad, TILT.expand(len(pose), 3)), pose[:, 3:])
    return moved


def observe(physics: str) -> Observed:
    """Reset, shake and steer a few arms."""
    from ledger_lab.panels.predicate import resolve_success
    from ledger_lab.tasks.reach.terms import pose_error

    with simulated(PANEL.task, physics, ENVS) as env:
        base, robot = env.unwrapped, env.unwrapped.scene["robot"]
        seen, commands = shaken(env), told(env)
        env.reset()
        command = base.command_manager.get_term("ee_pose")
        goals = command.command.clone()

        def hand() -> torch.Tensor:
            """Return the hands' poses in the frames of their bases, whose axes are the world's."""
            pose = robot.data.body_link_pose_w.torch[:, robot.body_names.index("panda_hand")].clone()
            pose[:, :3] -= robot.data.root_link_pos_w.torch
            return pose

        distances, angles, _ = zip(*BESIDE, strict=True)
        goal, reached = hand(), []
        goal[: len(BESIDE)] = turned(goal[: len(BESIDE)], torch.tensor(distances), torch.tensor(angles))
        for sign in (1.0, -1.0):
            command.pose_command_b[:, :3], command.pose_command_b[:, 3:] = goal[:, :3], sign * goal[:, 3:]
            reached.append(resolve_success(PANEL)(base, **PANEL.success_params).tolist()[: len(BESIDE)])

        there = robot.data.default_joint_pos.torch.clone()
        there[:, :7] += 0.2 * (2.0 * torch.rand(ENVS, 7, generator=torch.Generator().manual_seed(2)) - 1.0)
        robot.write_joint_position_to_sim_index(position=there)
        base.sim.forward()
        base.scene.update(0.0)
        goal = hand()
        env.reset()
        command.pose_command_b[:] = goal
        for _ in range(round(2.0 / base.step_dt)):
            env.step((there - robot.data.joint_pos.torch)[:, :7] / 0.2)
        error = pose_error(base, "ee_pose")
        return Observed(seen, commands, goals, reached, error, taken_twice(env, robust(PANEL.name)))


@pytest.fixture(scope="module", params=ENGINES)
def seen(request: pytest.FixtureRequest) -> tuple[str, Observed]:
    return request.param, observe(request.param)


def test_the_task_steps_and_its_seed_determines_the_start(seen: tuple[str, Observed]) -> None:
    seen[1].shaken.check(observations=38, actions=7)


def test_the_motors_are_told_what_a_contract_says(seen: tuple[str, Observed]) -> None:
    (arm,) = seen[1].told
    assert (arm.said["target"], arm.said["relative_to"]) == ("joint_pos", {"data": "joint_pos", "read_hz": 60.0})
    assert torch.allclose(arm.sent, arm.lawful, rtol=0.0, atol=1e-6)
    first, second = arm.lawful
    assert not torch.isclose(first, second, atol=1e-4).all(dim=1).any(), "the joint positions are read again"


def test_goals_lie_before_the_arm_and_point_down(seen: tuple[str, Observed]) -> None:
    x, y, z = seen[1].goals[:, :3].unbind(1)
    assert ((x >= 0.35) & (x <= 0.65) & (y.abs() <= 0.2) & (z >= 0.15) & (z <= 0.5)).all()
    a, b, _, _ = seen[1].goals[:, 3:].unbind(1)
    assert torch.allclose(a * a + b * b, torch.ones(ENVS)), "half a turn about an axis that lies level"


def test_the_hand_has_reached_what_lies_within_both_tolerances(seen: tuple[str, Observed]) -> None:
    assert seen[1].reached == [[there for *_, there in BESIDE]] * 2


def test_the_motors_hold_the_commanded_pose(seen: tuple[str, Observed]) -> None:
    assert (seen[1].error[:, :3].norm(dim=1) < 0.5 * POSITION_M).all()
    assert (seen[1].error[:, 3:].norm(dim=1) < 0.5 * ROTATION_RAD).all()


def test_every_cell_of_the_robustness_panel_is_felt(seen: tuple[str, Observed]) -> None:
    seen[1].repeats.check()
