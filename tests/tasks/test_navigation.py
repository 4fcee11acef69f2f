"""The robot sees pillars where they are, walks in any company, and is told apart where it has arrived or bumped."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pxr import Gf, Usd, UsdGeom

from ledger_lab.errors import UserError
from ledger_lab.panels import PanelIdentity, load_panel
from ledger_lab.tasks.assets import PILLAR_SPACING_M, PILLARS_USD
from tests.fakes.held_out import Trial, task_cfg
from tests.fakes.host_waits import host_waits
from tests.fakes.robots import ENGINES, Repeats, robust, shaken, simulated, taken_twice
from tests.fakes.walking import Crowded, Sway, write_policy
from tools.assets.ground import PILLAR_SIDE_M, pillars

PANEL = load_panel("navigation_flat_anymal_c_v1")
POSITION_M = PANEL.success_params["position_tolerance_m"]
HEADING_RAD = PANEL.success_params["heading_tolerance_rad"]
ENVS, RAYS, REACH_M = 12, 32, 4.0
BESIDE: list[tuple[float, float, bool]] = [
    (0.0, 0.0, True),
    (0.9 * POSITION_M, -0.9 * HEADING_RAD, True),
    (0.9 * POSITION_M, 0.9 * HEADING_RAD + 2.0 * math.pi, True),
    (1.1 * POSITION_M, 0.0, False),
    (0.0, 1.1 * HEADING_RAD, False),
    (0.0, math.pi, False),
]
"""Goals beside the first robots: how far [m], how much turned [rad], and whether the robot counts as there."""
NOSE_M = 0.52
"""From the middle of the base to its front [m]."""


@dataclass(frozen=True)
class Observed:
    """What was seen of a few robots."""

    starts: torch.Tensor
    """Where robots were after many resets; shape (n, 2) [m]."""
    goals: torch.Tensor
    """Where they were to go; shape (n, 2) [m]."""
    arrived: list[bool]
    """What the success function says with the goals of :data:`BESIDE`."""
    poses: torch.Tensor
    """Of robots among the pillars: x, y [m] and yaw [rad]; shape (num_envs, 3)."""
    distances: torch.Tensor
    """What they saw there; shape (num_envs, 32) [m]."""
    nearness: torch.Tensor
    """What the policy is shown of it; shape (num_envs, 32)."""
    ended: dict[str, list[bool]]
    """Terminations a step after the second was turned over, the third thrown down, and the fourth let past a pillar."""
    force_after_bump_n: float
    """What touched the fourth at the end of that step."""
    asked: torch.Tensor
    """Actions of two steps after a reset, and of one more, before which the first robot was reset."""
    told: list[torch.Tensor]
    """What the frozen policy saw meanwhile, turn by turn; shape (num_envs, 48) each."""
    waits: list[str]
    """What would make the host wait for a GPU in that reset, and in a step."""
    repeats: Repeats


@pytest.fixture(scope="module")
def legs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name a policy that stands and sways, as an override does."""
    return f"env.actions.velocity.policy_path={write_policy(tmp_path_factory.mktemp('walking') / 'policy', Sway())}"


@pytest.fixture(scope="module", params=ENGINES)
def seen(request: pytest.FixtureRequest, legs: str) -> Observed:
    """Reset, place, bump and judge a few robots."""
    import ledger_lab.tasks.registered
    from ledger_lab.panels.predicate import resolve_success
    from ledger_lab.tasks.navigation.env_cfg import LIDAR
    from ledger_lab.tasks.navigation.terms import distances, nearness

    with simulated(PANEL.task, request.param, ENVS, legs) as env:
        base, robot = env.unwrapped, env.unwrapped.scene["robot"]
        command = base.command_manager.get_term("pose_command")
        starts, goals = [], []
        for _ in range(20):
            env.reset()
            starts.append(robot.data.root_pos_w.torch[:, :2].clone())
            goals.append(command.pos_command_w[:, :2].clone())

        away, turned, _ = (torch.tensor(column) for column in zip(*BESIDE, strict=True))
        command.pos_command_w[: len(away)] = robot.data.root_pos_w.torch[: len(away)]
        command.pos_command_w[: len(away), 1] += away
        command.heading_command_w[: len(away)] = robot.data.heading_w.torch[: len(away)] + turned
        arrived = resolve_success(PANEL)(base, **PANEL.success_params).tolist()[: len(away)]

        poses = torch.cat([starts[-1], torch.linspace(-3.0, 3.0, ENVS).unsqueeze(1)], dim=1)
        place(env, poses)
        told_distances, shown = distances(base, **LIDAR).clone(), nearness(base, **LIDAR).clone()
        ended, force = bump(env, poses.clone())

        asked = torch.linspace(-2.0, 2.0, 3 * ENVS).view(ENVS, 3)
        with listening() as told:
            env.reset()
            env.step(asked)
            env.step(asked)
            with host_waits(ledger_lab.tasks) as waits:
                base._reset_idx(torch.zeros(1, dtype=torch.int32))
                env.step(asked)
        return Observed(
            starts=torch.cat(starts),
            goals=torch.cat(goals),
            arrived=arrived,
            poses=poses,
            distances=told_distances,
            nearness=shown,
            ended=ended,
            force_after_bump_n=force,
            asked=asked,
            told=told,
            waits=list(waits),
            repeats=taken_twice(env, robust(PANEL.name)),
        )


def place(env: Any, poses: torch.Tensor) -> torch.Tensor:
    """Put robots level, at rest, with their joints at their defaults, and return their poses as they were written."""
    base, robot = env.unwrapped, env.unwrapped.scene["robot"]
    pose = robot.data.default_root_pose.torch.clone()
    pose[:, :2] = poses[:, :2]
    pose[:, 5], pose[:, 6] = (0.5 * poses[:, 2]).sin(), (0.5 * poses[:, 2]).cos()
    robot.write_root_pose_to_sim_index(root_pose=pose)
    robot.write_root_velocity_to_sim_index(root_velocity=torch.zeros(ENVS, 6))
    robot.write_joint_position_to_sim_index(position=robot.data.default_joint_pos.torch.clone())
    robot.write_joint_velocity_to_sim_index(velocity=torch.zeros(ENVS, 12))
    base.sim.forward()
    base.scene.update(base.physics_dt)
    return pose


def bump(env: Any, poses: torch.Tensor) -> tuple[dict[str, list[bool]], float]:
    """Turn the second robot over, high up, throw the third down, and let the fourth scrape along a pillar."""
    base, robot = env.unwrapped, env.unwrapped.scene["robot"]
    env.reset()
    x, y, turned = pillars()[5]
    ahead = torch.tensor([math.cos(turned), math.sin(turned)])
    poses[3, :2] = torch.tensor([x, y]) - (0.5 * PILLAR_SIDE_M + NOSE_M - 0.01) * ahead
    poses[3, 2] = turned
    pose = place(env, poses)
    pose[1:4, 2] = torch.tensor([1.6, 0.05, 0.9])
    pose[1, 3:] = torch.tensor([1.0, 0.0, 0.0, 0.0])  # xyzw: half a turn about x
    velocity = torch.zeros(ENVS, 6)
    velocity[3, :2] = 3.0 * torch.tensor([-ahead[1], ahead[0]])
    robot.write_root_pose_to_sim_index(root_pose=pose)
    robot.write_root_velocity_to_sim_index(root_velocity=velocity)
    env.step(torch.zeros(ENVS, 3))
    force: float = base.scene["contact_forces"].data.net_forces_w.torch[3].norm(dim=1).max().item()
    return {name: base.termination_manager.get_term(name).tolist() for name in ("collision", "tipped_over")}, force


class listening:  # noqa: N801 - reads as a verb
    """Notes what the frozen policy sees."""

    def __enter__(self) -> list[torch.Tensor]:
        from ledger_lab.tasks.navigation import actions

        told: list[torch.Tensor] = []
        self._patch = pytest.MonkeyPatch()
        act = actions.with_training_at_once

        def listen(policy: Any, observations: torch.Tensor, first: int) -> torch.Tensor:
            told.append(observations.clone())
            return act(policy, observations, first)

        self._patch.setattr(actions, "with_training_at_once", listen)
        return told

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def seen_from(poses: torch.Tensor) -> torch.Tensor:
    """Return how far it is to the next pillar along each ray, from behind to the left, front and right [m]."""
    x, y, turned = torch.tensor(pillars()).T
    bearing = poses[:, 2:] + torch.linspace(-math.pi, math.pi, RAYS + 1)[:-1]
    ways = []
    for cosine, sine in ((turned.cos(), turned.sin()), (-turned.sin(), turned.cos())):
        start = (poses[:, :1] - x) * cosine + (poses[:, 1:2] - y) * sine
        slope = bearing.cos().unsqueeze(2) * cosine + bearing.sin().unsqueeze(2) * sine
        walls = torch.stack([-0.5 * PILLAR_SIDE_M - start, 0.5 * PILLAR_SIDE_M - start])
        ways.append((walls.unsqueeze(2) / slope).sort(dim=0).values)
    enter, leave = torch.maximum(ways[0][0], ways[1][0]), torch.minimum(ways[0][1], ways[1][1])
    hit = (enter < leave) & (enter > 0.0)
    return torch.where(hit, enter, torch.inf).amin(dim=2).clamp(max=REACH_M)


def test_what_is_seen_of_a_pillar_is_what_is_bumped_into() -> None:
    stage = Usd.Stage.Open(str(PILLARS_USD))
    solids = stage.GetPrimAtPath("/Ground/solids").GetChildren()
    mesh = UsdGeom.Mesh(stage.GetPrimAtPath("/Ground/pillars"))
    corners = mesh.GetPointsAttr().Get()
    assert len(corners) == 8 * len(solids) == 8 * len(pillars())
    assert set(mesh.GetFaceVertexCountsAttr().Get()) == {3}, "Isaac Lab's ray casters take triangles alone"
    for number, solid in enumerate(solids):
        inside = UsdGeom.Xformable(solid).GetLocalTransformation().GetInverse()
        for corner in corners[8 * number : 8 * number + 8]:
            assert np.allclose(np.abs(inside.Transform(Gf.Vec3d(corner))), 0.5, atol=1e-3)


def test_the_task_steps_and_its_seed_determines_the_start(legs: str) -> None:
    # With a new velocity for each turn of the policy that walks, 200 actions take a tenth of the time.
    with simulated(PANEL.task, "newton_mujoco", ENVS, legs, "env.decimation=4") as env:
        shaken(env).check(observations=48, actions=3)


def test_the_robot_has_arrived_within_both_tolerances(seen: Observed) -> None:
    assert seen.arrived == [there for *_, there in BESIDE]


def test_a_fall_and_the_shortest_bump_end_an_episode(seen: Observed) -> None:
    assert seen.ended["tipped_over"] == [index == 1 for index in range(ENVS)]
    assert seen.ended["collision"] == [index in (2, 3) for index in range(ENVS)]
    assert seen.force_after_bump_n == 0.0, "it is past the pillar when the step ends"


def test_the_robot_sees_pillars_where_they_are(seen: Observed) -> None:
    expected = seen_from(seen.poses)
    assert torch.allclose(seen.distances, expected, atol=2e-3)
    assert (expected < REACH_M).any(dim=1).all() and (expected == REACH_M).any()
    assert torch.allclose(seen.nearness, -(seen.distances / REACH_M).log(), atol=1e-5)


def test_pillars_stand_in_the_way_but_not_at_start_or_goal(seen: Observed) -> None:
    middles = torch.tensor(pillars())[:, :2]
    for places in (seen.starts, seen.goals):
        assert torch.cdist(places, middles).min() > 1.2
    cells = (seen.starts / PILLAR_SPACING_M).round()
    assert len(cells.unique(dim=0)) == 9
    beyond = seen.goals / PILLAR_SPACING_M - cells
    assert len(beyond.round().unique(dim=0)) == 8 and not (beyond.round() == 0.0).all(dim=1).any()
    assert (beyond - beyond.round()).abs().max() * PILLAR_SPACING_M <= 0.301
    way = (seen.goals - seen.starts).unsqueeze(1)
    along = ((middles - seen.starts.unsqueeze(1)) * way).sum(dim=2, keepdim=True)
    along /= way.square().sum(dim=2, keepdim=True)
    nearest = (seen.starts.unsqueeze(1) + along.clamp(0.0, 1.0) * way - middles).norm(dim=2).amin(dim=1)
    blocked = (nearest < 0.5 * PILLAR_SIDE_M + 0.3).float().mean()
    assert 0.3 < blocked < 0.8, "a straight walk to the goal hits a pillar in about half of the episodes"


def test_the_frozen_policy_acts_at_its_own_rate_and_sees_its_actions_since_the_reset(seen: Observed) -> None:
    policy = Sway()
    assert len(seen.told) == 30
    done = torch.zeros(ENVS, 12)
    for turn, told in enumerate(seen.told):
        if turn == 20:
            done[0] = 0.0
        assert torch.equal(told[:, 9:12], seen.asked.clamp(-1.0, 1.0))
        assert torch.allclose(told[:, 36:], done, atol=1e-6)
        done = policy(told).detach()


def test_resets_and_steps_ask_a_gpu_for_nothing(seen: Observed) -> None:
    assert seen.waits == []


def test_every_cell_of_the_robustness_panel_is_felt(seen: Observed) -> None:
    seen.repeats.check()


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """Return a trial on legs whose policy depends on the size of its batch."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import simulation_app

    registered_tasks()
    path = write_policy(tmp_path_factory.mktemp("crowded") / "policy", Crowded())

    def steer(seed: int) -> Callable[[Any], torch.Tensor]:
        weights = torch.randn(48, 3, generator=torch.Generator().manual_seed(seed))
        return lambda observations: torch.tanh(observations["policy"] @ weights)

    def cfg() -> Any:
        return task_cfg(PANEL.task, "physics=newton_mujoco", f"env.actions.velocity.policy_path={path}")

    panel = replace(PANEL, seeds=tuple(range(5)), episode_length_s=1.0, hold_s=0.2)
    with simulation_app(cfg(), {"device": "cpu"}):
        yield Trial(panel, steer(1), steer(2), cfg)


CROWD = 65
"""Training slots that make the simulation larger."""


@pytest.mark.thorough  # tests/mujoco_cpu/test_native.py has an ant in any company
def test_episodes_are_the_same_in_any_company(trial: Trial) -> None:
    alone = trial.alone()
    assert len(set(alone.fingerprint)) == len(alone.seed)
    assert trial.in_company(CROWD) == alone


def test_another_walking_policy_changes_the_panel_id(tmp_path: Path) -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.description import describe_simulation
    from ledger_lab.training.runners.session import held_out_config

    registered_tasks()
    paths = [write_policy(tmp_path / "one", Sway()), write_policy(tmp_path / "other", Sway(seed=2))]
    paths.append(str(shutil.copytree(tmp_path / "one", tmp_path / "copy") / "policy.pt"))
    cfgs = [task_cfg(PANEL.task, f"env.actions.velocity.policy_path={path}") for path in paths]
    ids = [PanelIdentity.of(PANEL, describe_simulation(held_out_config(cfg, 1))).id for cfg in cfgs]
    assert ids[0] == ids[2] != ids[1]


def test_only_a_policy_that_walks_will_do(tmp_path: Path) -> None:
    from ledger_lab.tasks.navigation.frozen import WALKING_POLICY, load_walking_policy

    path = write_policy(tmp_path / "good", Sway())
    seen = torch.ones(2, 48)
    assert torch.equal(load_walking_policy(path)(seen), Sway()(seen))
    bare, spoiled = write_policy(tmp_path / "bare", Sway()), write_policy(tmp_path / "spoiled", Sway())
    (tmp_path / "bare" / "contract.json").unlink()
    foreign = write_policy(tmp_path / "foreign", Sway())
    described = tmp_path / "foreign" / "contract.json"
    described.write_text(json.dumps({"files": json.loads(described.read_text())["files"]}))
    shutil.copy(write_policy(tmp_path / "other", Sway(seed=2)), spoiled)
    short = write_policy(tmp_path / "short", Sway())
    contract = json.loads((tmp_path / "short" / "contract.json").read_text())
    contract["actions"][0]["scale"] = 0.25
    (tmp_path / "short" / "contract.json").write_text(json.dumps(contract))
    mistakes = {
        str(
            tmp_path / "absent.pt"
        ): r"the walking policy is missing: .*absent.pt is not the absolute path .*: train Led",
        "policy.pt": r"the walking policy is missing: policy.pt is not the absolute path of a file",
        bare: r"cannot read contract.json beside .*bare/policy.pt .*: export it again with scripts/export_p",
        foreign: r"cannot read contract.json beside .*foreign/policy.pt .*field `policy`.: export it again",
        spoiled: r"spoiled/policy.pt is not the file that contract.json describes .*: export it again",
        short: r"short/policy.pt has other observations or .*AnymalC: actions.joint_pos.scale: 0.25 != 0.5",
        write_policy(tmp_path / "ant", Sway(), "LedgerLab-Ant"): r"is a policy of LedgerLab-Ant: name a policy of",
    }
    for mistaken, complaint in mistakes.items():
        with pytest.raises(UserError, match=complaint) as raised:
            load_walking_policy(mistaken)
        assert "\n" not in str(raised.value)
    load_walking_policy(str(WALKING_POLICY))
