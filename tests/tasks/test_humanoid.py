"""Both engines agree on the humanoid task; its success function distinguishes walking robots from fallen robots."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from ledger_lab.panels import load_panel
from tests.fakes.robots import ENGINES, Repeats, Shaken, robust, shaken, simulated, taken_twice

ENVS = 12


@dataclass(frozen=True)
class Observed:
    """What was seen of a few humanoids."""

    shaken: Shaken
    gears_nm: dict[str, float]
    """Torque of a unit action by joint."""
    walked: list[bool]
    """Whether the success function holds: at the start, 2.9 m and 3.1 m ahead, and lying 3.1 m ahead."""
    fallen: list[bool]
    """Whether the torso's height ends the episode one step later."""
    repeats: Repeats


def observe(physics: str) -> Observed:
    """Reset, shake, carry away and lay down a few humanoids."""
    from ledger_lab.panels.predicate import resolve_success

    panel = load_panel("humanoid_v1")
    with simulated(panel.task, physics, ENVS) as env:
        base, robot = env.unwrapped, env.unwrapped.scene["robot"]
        seen = shaken(env)
        env.reset()
        action = base.action_manager.get_term("joint_effort")
        action.process_actions(torch.full((ENVS, 21), 5.0))
        gears = dict(zip(robot.joint_names, action.processed_actions[0].tolist(), strict=True))

        pose = robot.data.root_link_pose_w.torch.clone()
        pose[1:4, 0] += torch.tensor([2.9, 3.1, 3.1])
        pose[3, 2:] = torch.tensor([0.3, 0.0, 0.5**0.5, 0.0, 0.5**0.5])  # xyzw: a quarter of a turn about y
        robot.write_root_pose_to_sim_index(root_pose=pose)
        walked = resolve_success(panel)(base, **panel.success_params).tolist()
        env.step(torch.zeros(ENVS, 21))
        return Observed(
            shaken=seen,
            gears_nm=gears,
            walked=walked[:4],
            fallen=base.termination_manager.get_term("torso_height").tolist()[:4],
            repeats=taken_twice(env, robust(panel.name)),
        )


@pytest.fixture(scope="module", params=ENGINES)
def seen(request: pytest.FixtureRequest) -> tuple[str, Observed]:
    return request.param, observe(request.param)


def test_the_task_steps_and_its_seed_determines_the_start(seen: tuple[str, Observed]) -> None:
    seen[1].shaken.check(observations=87, actions=21, seeded=54)  # up to the forces on the feet, which have a memory
    gears = seen[1].gears_nm
    assert gears["left_thigh:1"] == 135.0 and gears["left_thigh:0"] == gears["right_lower_arm"] == 45.0
    assert gears["pelvis"] == gears["lower_waist:0"] == 67.5 and gears["left_foot:0"] == 22.5
    assert gears["right_shin"] == 90.0


def test_success_needs_the_distance(seen: tuple[str, Observed]) -> None:
    assert seen[1].walked == [False, False, True, True]


def test_lying_is_a_fall(seen: tuple[str, Observed]) -> None:
    assert seen[1].fallen == [False, False, False, True]


def test_every_cell_of_the_robustness_panel_is_felt(seen: tuple[str, Observed]) -> None:
    seen[1].repeats.check()
