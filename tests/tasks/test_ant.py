"""The ant is the published one; it falls, stands on its feet, and is told apart where it lies or has walked."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import mujoco
import numpy as np
import pytest
import torch
from pxr import Gf, Usd, UsdGeom, UsdPhysics

from ledger_lab.panels.panel import load_panel
from ledger_lab.tasks.assets import ANT_USD
from tests.fakes.robots import ENGINES, robust, shaken, simulated, taken_twice

LIMBS = ("front_left", "front_right", "left_back", "right_back")
JOINTS = tuple(f"{limb}_{part}" for limb in LIMBS for part in ("leg", "foot"))
GRAVITY_M_S2 = 9.81


@pytest.fixture(scope="module")
def ant() -> Usd.Stage:
    return Usd.Stage.Open(str(ANT_USD))


@pytest.fixture(scope="module")
def published() -> mujoco.MjData:
    """The benchmark's own description, which Newton has among its examples, with all joints at zero."""
    newton = importlib.util.find_spec("newton")
    assert newton is not None and newton.origin is not None
    model = mujoco.MjModel.from_xml_path(str(Path(newton.origin).parent / "examples" / "assets" / "nv_ant.xml"))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return data


def matrix(quaternion: Gf.Quatf) -> np.ndarray:
    """Return a rotation as it multiplies column vectors."""
    return np.array(Gf.Matrix3d(Gf.Quatd(quaternion))).T


def test_bodies_are_flat_and_the_torso_is_the_root(ant: Usd.Stage) -> None:
    bodies = [prim.GetName() for prim in ant.GetDefaultPrim().GetChildren() if prim.HasAPI(UsdPhysics.RigidBodyAPI)]
    assert tuple(bodies) == ("torso", *JOINTS)
    assert [p.GetPath() for p in ant.Traverse() if p.HasAPI(UsdPhysics.ArticulationRootAPI)] == ["/Ant/torso"]


@pytest.mark.parametrize("name", ("torso", *JOINTS))
def test_bodies_have_the_published_mass_center_and_inertia(ant: Usd.Stage, published: mujoco.MjData, name: str) -> None:
    prim = ant.GetPrimAtPath(f"/Ant/{name}")
    mass = UsdPhysics.MassAPI(prim)
    theirs = published.model.body(name)
    assert mass.GetMassAttr().Get() == pytest.approx(theirs.mass[0], rel=1e-5)
    center = UsdGeom.Xformable(prim).GetLocalTransformation().Transform(Gf.Vec3d(mass.GetCenterOfMassAttr().Get()))
    assert np.allclose(center, published.body(name).xipos - published.body("torso").xpos, atol=1e-6)
    axes = matrix(mass.GetPrincipalAxesAttr().Get())
    their_axes = published.body(name).ximat.reshape(3, 3)
    inertia = axes @ np.diag(mass.GetDiagonalInertiaAttr().Get()) @ axes.T
    assert np.allclose(inertia, their_axes @ np.diag(theirs.inertia) @ their_axes.T, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("name", JOINTS)
def test_joints_have_the_published_place_axis_and_limits(ant: Usd.Stage, published: mujoco.MjData, name: str) -> None:
    joint = UsdPhysics.RevoluteJoint(ant.GetPrimAtPath(f"/Ant/joints/{name}"))
    body = published.model.body(name)
    theirs = published.model.joint(body.jntadr[0])
    assert joint.GetBody0Rel().GetTargets() == [f"/Ant/{published.model.body(body.parentid[0]).name}"]
    assert joint.GetBody1Rel().GetTargets() == [f"/Ant/{name}"]
    assert np.allclose(joint.GetLocalPos0Attr().Get(), body.pos)
    assert np.allclose(joint.GetLocalPos1Attr().Get(), 0.0)
    axis = {"Y": (0.0, 1.0, 0.0), "Z": (0.0, 0.0, 1.0)}[joint.GetAxisAttr().Get()]
    for turn in (joint.GetLocalRot0Attr(), joint.GetLocalRot1Attr()):
        assert np.allclose(matrix(turn.Get()) @ axis, theirs.axis, atol=1e-6)
    limits = (joint.GetLowerLimitAttr().Get(), joint.GetUpperLimitAttr().Get())
    assert np.allclose(np.radians(limits), theirs.range, atol=1e-6)


def test_limbs_collide_as_published(ant: Usd.Stage, published: mujoco.MjData) -> None:
    radii = {"Sphere": 0.25, "Capsule": 0.08}
    shapes = [prim for prim in ant.Traverse() if prim.HasAPI(UsdPhysics.CollisionAPI)]
    assert len(shapes) == published.model.ngeom - 1, "all but their floor"
    for shape in shapes:
        assert shape.GetAttribute("radius").Get() == radii[shape.GetTypeName()]


@dataclass(frozen=True)
class Observed:
    """What was seen of a few ants in a simulation."""

    spaces: dict[str, tuple[int, ...] | None]
    joint_limits_deg: dict[str, tuple[float, float]]
    fall_velocity_m_s: torch.Tensor
    """Of the torso after one step high above the ground, shape (num_envs,)."""
    force_in_air: torch.Tensor
    """Between each leg and its foot at that moment [N], shape (num_envs, 4)."""
    force_at_rest: torch.Tensor
    """The same after two seconds without torques."""
    height_at_rest_m: torch.Tensor
    speed_at_rest_m_s: torch.Tensor
    fallen: torch.Tensor
    """Whether the torso's height ends the episode, with the second ant on its back; shape (num_envs,)."""
    walked: torch.Tensor
    """Whether the success function holds, with ants 5.2 m and 4.8 m away along x, and one 5.2 m along y."""
    states: torch.Tensor
    """Observations under random torques, shape (steps, num_envs, 60)."""


def observe(recorded: bool) -> Observed:
    """Simulate six ants: drop them, let them stand, turn one on its back, carry two away, and shake all."""
    from ledger_lab.tasks.ant.success import walked
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.configs import resolve_configs
    from ledger_lab.training.runners.session import environment, recorded_physics, simulation_app

    registered_tasks()
    env_cfg, _ = resolve_configs("LedgerLab-Ant", "rsl_rl", [f"env.sim.physics.use_cuda_graph={recorded}"])
    env_cfg.sim.device, env_cfg.seed, env_cfg.scene.num_envs = "cpu", 5, 6
    with (
        simulation_app(env_cfg, {"device": "cpu"}),
        environment("LedgerLab-Ant", env_cfg) as env,
        recorded_physics(env),
    ):
        env.reset()
        base, robot = env.unwrapped, env.unwrapped.scene["robot"]
        feet = [base.scene["joint_wrench"].body_names.index(f"{limb}_foot") for limb in LIMBS]

        def pose() -> torch.Tensor:
            return robot.data.root_link_pose_w.torch.clone()

        def forces() -> torch.Tensor:
            return base.scene["joint_wrench"].data.force.torch[:, feet].norm(dim=-1)

        idle = torch.zeros(6, 8)
        lifted = pose()
        lifted[:, 2] = 1.0
        robot.write_root_pose_to_sim_index(root_pose=lifted)
        env.step(idle)
        fall_velocity, force_in_air = robot.data.root_lin_vel_w.torch[:, 2].clone(), forces()

        env.reset()
        felt = []
        for _ in range(120):
            env.step(idle)
            felt.append(forces())
        height, force_at_rest = pose()[:, 2], torch.stack(felt[60:]).mean(dim=0)  # of a second, in which it sways
        speed = robot.data.root_lin_vel_w.torch.norm(dim=-1)

        moved = pose()
        moved[1, 2:] = torch.tensor([0.26, 1.0, 0.0, 0.0, 0.0])  # xyzw: half a turn about x
        moved[2:4, 0] += torch.tensor([5.2, 4.8])
        moved[4, 1] += 5.2
        robot.write_root_pose_to_sim_index(root_pose=moved)
        far = walked(base, distance_m=5.0)
        env.step(idle)
        fallen = base.termination_manager.get_term("torso_height").clone()
        generator = torch.Generator().manual_seed(1)
        states = [env.step(2.0 * torch.randn(6, 8, generator=generator))[0]["policy"].clone() for _ in range(60)]
        limits = robot.data.joint_pos_limits.torch[0].rad2deg()
        return Observed(
            spaces={"observation": env.observation_space["policy"].shape, "action": env.action_space.shape},
            joint_limits_deg=dict(zip(robot.joint_names, map(tuple, limits.tolist()), strict=True)),
            fall_velocity_m_s=fall_velocity,
            force_in_air=force_in_air,
            force_at_rest=force_at_rest,
            height_at_rest_m=height,
            speed_at_rest_m_s=speed,
            fallen=fallen,
            walked=far,
            states=torch.stack(states),
        )


@pytest.fixture(scope="module")
def observed() -> Observed:
    return observe(recorded=True)


def test_the_task_is_registered_with_its_panel() -> None:
    import ledger_lab.tasks.registered  # noqa: F401 - registers

    kwargs = gym.spec("LedgerLab-Ant").kwargs
    assert load_panel(kwargs["default_panel"]).task == "LedgerLab-Ant"


def test_spaces_and_joints_are_those_of_isaac_lab(observed: Observed) -> None:
    assert observed.spaces == {"observation": (6, 60), "action": (6, 8)}
    breadth_first = [f"{limb}_{part}" for part in ("leg", "foot") for limb in LIMBS]
    assert list(observed.joint_limits_deg) == breadth_first, "as PhysX has them, under every engine"
    for name, limits in observed.joint_limits_deg.items():
        bent = (30.0, 100.0) if name in ("front_left_foot", "right_back_foot") else (-100.0, -30.0)
        assert limits == pytest.approx((-40.0, 40.0) if name.endswith("leg") else bent, rel=1e-4)


def test_the_ant_falls_freely_until_its_feet_carry_its_body(observed: Observed) -> None:
    assert observed.fall_velocity_m_s == pytest.approx(torch.full((6,), -GRAVITY_M_S2 / 60).numpy(), abs=0.02)
    assert (observed.force_in_air < 0.2).all()
    assert (observed.force_at_rest.sum(dim=1) > 5.0).all(), "they carry a weight of 6.3 N"
    assert ((observed.height_at_rest_m > 0.35) & (observed.height_at_rest_m < 0.6)).all()
    assert (observed.speed_at_rest_m_s < 0.3).all(), "without torques it sways on its feet"


def test_only_the_ant_on_its_back_has_fallen(observed: Observed) -> None:
    assert observed.fallen.tolist() == [False, True, False, False, False, False]


def test_only_the_ant_that_is_far_along_x_has_walked(observed: Observed) -> None:
    assert observed.walked.tolist() == [False, False, True, False, False, False]


@pytest.mark.thorough  # tests of runners compare replayed steps on another task
def test_replayed_contacts_equal_launched_contacts_bit_for_bit(observed: Observed) -> None:
    assert observed.states.isfinite().all()
    assert torch.equal(observe(recorded=False).states, observed.states)


def test_every_cell_of_the_robustness_panel_is_felt() -> None:
    panel = robust("ant_v1")
    with simulated(panel.task, "newton_mujoco", len(panel.episodes) + 2) as env:
        taken_twice(env, panel).check()


@pytest.mark.parametrize("physics", ENGINES)
def test_random_actions_keep_states_finite_and_seeds_fix_initial_states(physics: str) -> None:
    with simulated("LedgerLab-Ant", physics, 6) as env:
        shaken(env).check(observations=60, actions=8, seeded=28)  # up to the forces on the feet, which have a memory
