"""Both engines agree on the velocity tasks; the success function accepts robots that follow the command upright."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ledger_lab.panels import Panel, load_panel
from tests.fakes.held_out import thorough
from tests.fakes.robots import ENGINES, Repeats, Shaken, robust, shaken, simulated, taken_twice

FEET = {
    "AnymalC": ["LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT"],
    "Go2": ["FL_foot", "FR_foot", "RL_foot", "RR_foot"],
}
PANELS = [load_panel(f"velocity_{name}_v1") for name in ("flat_anymal_c", "flat_go2")]
PANELS.append(thorough(load_panel("velocity_rough_anymal_c_v1")))  # tests/panels/test_held_out_ground.py steps it
ENVS = 12
COMMAND = (0.5, -0.4, 0.3)
ERRORS = torch.tensor(
    [(0.0, 0.0, 0.0), (0.15, 0.15, -0.2), (0.2, 0.2, 0.0), (0.0, 0.0, 0.3), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)]
)
"""What the first robots' velocities differ from the command by: nothing, a little, too much ahead, too much in turning,
and twice nothing again, but upside down, in the air and on the ground."""


@dataclass(frozen=True)
class Observed:
    """What was seen of a few robots."""

    shaken: Shaken
    feet: list[str]
    """Bodies whose steps are rewarded, as the sensor names what the reward looks at."""
    tracked: list[bool]
    """Whether the success function holds, with the velocities of :data:`ERRORS`."""
    ended: dict[str, list[bool]]
    """Terminations one step later."""
    heights: dict[str, torch.Tensor]
    """Scan from 0.6 m above the middle of each kind of patch; shape (54,)."""
    repeats: Repeats


def observe(panel: Panel, physics: str) -> Observed:
    """Reset, shake, hover and judge a few robots."""
    from isaaclab.sensors.ray_caster.base_ray_caster import BaseRayCaster

    from ledger_lab.panels.predicate import resolve_success

    if "Rough" in panel.task:
        BaseRayCaster.meshes["/World/ground", "cpu"] = None  # what an earlier simulation may leave
    with simulated(panel.task, physics, ENVS) as env:
        base, robot = env.unwrapped, env.unwrapped.scene["robot"]
        seen = shaken(env)
        env.reset()
        pose = robot.data.root_link_pose_w.torch.clone()
        pose[:, :3] = base.scene.env_origins + torch.tensor([0.0, 0.0, 0.6])
        pose[:, 3:] = torch.tensor([0.0, 0.0, 0.0, 1.0])  # xyzw
        heights = scanned(env, pose) if "height_scanner" in base.scene.sensors else {}
        pose[:, :3] = base.scene.env_origins + torch.tensor([0.0, 0.0, 1.6])  # a robot that fell may start elsewhere
        pose[4:6, 3:] = torch.tensor([1.0, 0.0, 0.0, 0.0])  # half a turn about x
        pose[5, 2] = base.scene.env_origins[5, 2] + (0.05 if "Go2" in panel.task else 0.15)
        velocity = torch.zeros(ENVS, 6)
        told = torch.tensor(COMMAND).repeat(ENVS, 1)
        told[: len(ERRORS)] += ERRORS
        velocity[:, :2], velocity[:, 5] = told[:, :2], told[:, 2]
        velocity[4:6, [1, 5]] *= -1.0  # y and z of their bases point the other way
        robot.write_root_pose_to_sim_index(root_pose=pose)
        robot.write_root_velocity_to_sim_index(root_velocity=velocity)
        base.sim.forward()
        base.scene.update(base.physics_dt)
        command = base.command_manager.get_term("base_velocity")
        command.vel_command_b[:] = torch.tensor(COMMAND)
        command.commanded_m[:] = 0.0
        for _ in range(300):  # long enough for the average
            command._update_metrics()
        assert torch.allclose(command.commanded_m, torch.tensor(300 * 0.02 * 0.41**0.5)), "0.5 and 0.4 m/s for 6 s"
        tracked = resolve_success(panel)(base, **panel.success_params).tolist()
        env.step(torch.zeros(ENVS, 12))
        ended = {name: base.termination_manager.get_term(name).tolist() for name in ("base_contact", "tipped_over")}
        about_feet = "in_step" if "Go2" in panel.task else "feet_air_time"
        looks_at = base.reward_manager.get_term_cfg(about_feet).params["sensor_cfg"]
        return Observed(
            shaken=seen,
            feet=[base.scene["contact_forces"].body_names[index] for index in looks_at.body_ids],
            tracked=tracked,
            ended=ended,
            heights=heights,
            repeats=taken_twice(env, robust(panel.name)),
        )


def scanned(env: Any, pose: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return what robots see of the ground from 0.6 m above the middle of each kind of patch, one step later."""
    terrain, robot = env.unwrapped.scene.terrain, env.unwrapped.scene["robot"]
    kinds = terrain.cfg.terrain_generator.sub_terrains
    placed = pose.clone()
    placed[: len(kinds), :3] = terrain.terrain_origins[2] + torch.tensor([0.0, 0.0, 0.6])
    robot.write_root_pose_to_sim_index(root_pose=placed)
    robot.write_root_velocity_to_sim_index(root_velocity=torch.zeros(ENVS, 6))
    heights = env.step(torch.zeros(ENVS, 12))[0]["policy"][: len(kinds), 48:].clone()
    return dict(zip(kinds, heights, strict=True))


@pytest.fixture(scope="module", params=PANELS, ids=lambda panel: panel.name)
def panel(request: pytest.FixtureRequest) -> Panel:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module", params=ENGINES)
def seen(request: pytest.FixtureRequest, panel: Panel) -> tuple[str, str, Observed]:
    return panel.task, request.param, observe(panel, request.param)


def test_the_task_steps_and_its_seed_determines_the_start(seen: tuple[str, str, Observed]) -> None:
    task, _, observed = seen
    observed.shaken.check(observations=102 if "Rough" in task else 50 if "Go2" in task else 48, actions=12, seeded=48)
    assert observed.feet == FEET[task.rpartition("-")[2]]


def test_only_robots_near_the_commanded_velocity_track_the_command(seen: tuple[str, str, Observed]) -> None:
    assert seen[2].tracked[:6] == [True, True, False, False, True, True]


def test_a_robot_upside_down_or_on_the_ground_has_fallen(seen: tuple[str, str, Observed]) -> None:
    ended = seen[2].ended
    assert ended["tipped_over"][:6] == [False] * 4 + [True] * 2
    assert ended["base_contact"][:6] == [False] * 5 + [True]


def test_on_rough_ground_the_robot_sees_the_level_middle_of_each_patch(seen: tuple[str, str, Observed]) -> None:
    task, _, observed = seen
    assert len(observed.heights) == (6 if "Rough" in task else 0)
    for kind, heights in observed.heights.items():
        if kind == "random_rough":
            assert heights.max() - heights.min() > 0.1
        else:
            assert torch.allclose(heights, torch.tensor(0.5), atol=0.1), "0.6 m less the scan's own 0.5 m, times 5"


def test_every_cell_of_the_robustness_panel_is_felt(seen: tuple[str, str, Observed]) -> None:
    seen[2].repeats.check()


def test_feet_are_in_step_when_they_bear_the_robot_in_turn() -> None:
    from ledger_lab.tasks.velocity.gait import gait_phase, in_step

    contact_times = torch.tensor([[0.1, 0.0, 0.0, 0.1], [0.0, 0.1, 0.1, 0.0], [0.1] * 4, [0.1] * 4])  # FL, FR, RL, RR
    command = torch.tensor([[0.5, 0.0, 0.0]] * 3 + [[0.0, 0.05, 0.0]])  # the last one is told to stand
    sensor = SimpleNamespace(data=SimpleNamespace(current_contact_time=SimpleNamespace(torch=contact_times)))
    env: Any = SimpleNamespace(
        step_dt=0.02,
        episode_length_buf=torch.full((4,), 3),
        scene=SimpleNamespace(sensors={"feet": sensor}),
        command_manager=SimpleNamespace(get_command={"base_velocity": command}.get),
    )

    def share() -> list[float]:
        feet = SimpleNamespace(name="feet", body_ids=[0, 1, 2, 3])
        return in_step(env, 0.48, "base_velocity", 0.1, feet).tolist()  # type: ignore[arg-type]

    assert share() == [1.0, 0.0, 0.5, 1.0]
    before = gait_phase(env, 0.48)
    env.episode_length_buf += 12
    assert share() == [0.0, 1.0, 0.5, 1.0]
    assert torch.allclose(gait_phase(env, 0.48), -before, atol=1e-6), "half a cycle later"
    assert torch.allclose(before[0], torch.tensor([0.5, 0.5]).sqrt())


def test_progress_is_the_velocity_along_the_command_up_to_its_norm() -> None:
    from ledger_lab.tasks.velocity.progress import progress

    command = torch.tensor([[0.6, 0.8, 0.5]] * 5 + [[0.0, 0.0, 1.0]])  # the last one is told to turn where it stands
    velocity = [[0.6, 0.8], [1.2, 1.6], [0.06, 0.08], [-0.6, -0.8], [0.8, -0.6], [1.0, 0.0]]
    robot = SimpleNamespace(
        data=SimpleNamespace(root_lin_vel_b=SimpleNamespace(torch=torch.tensor([[*each, 0.3] for each in velocity])))
    )
    env: Any = SimpleNamespace(
        scene={"robot": robot}, command_manager=SimpleNamespace(get_command={"base_velocity": command}.get)
    )
    rewarded = progress(env, "base_velocity")
    assert rewarded.tolist() == pytest.approx([1.0, 1.0, 0.1, -1.0, 0.0, 0.0], abs=1e-6)
