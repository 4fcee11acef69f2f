"""The ant is the published one; it falls, stands on its feet, and is told apart where it lies or has walked."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from pxr import Gf, Usd, UsdGeom, UsdPhysics

from ledger_lab.tasks.assets import ANT_USD
from tests.fakes.robots import ENGINES, Repeats, Shaken, robust, shaken, simulated, taken_twice

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


def test_limbs_collide_as_published(ant: Usd.Stage, published: mujoco.MjData) -> None:
    radii = {"Sphere": 0.25, "Capsule": 0.08}
    shapes = [prim for prim in ant.Traverse() if prim.HasAPI(UsdPhysics.CollisionAPI)]
    assert len(shapes) == published.model.ngeom - 1, "all but their floor"
    for shape in shapes:
        assert shape.GetAttribute("radius").Get() == radii[shape.GetTypeName()]


@dataclass(frozen=True)
class Observed:
    """What was seen of a few ants in a simulation."""

    shaken: Shaken
    joint_limits_deg: dict[str, tuple[float, float]]
    fall_velocity_m_s: torch.Tensor
    """Of the torso after one step high above the ground, shape (num_envs,)."""
    force_in_air: torch.Tensor
    """Between each leg and its foot at that moment [N], shape (num_envs, 4)."""
    force_at_rest: torch.Tensor
    """The same after two seconds without torques."""
    height_at_rest_m: torch.Tensor
    fallen: list[bool]
    """Whether the torso's height ends the episode, with the second ant on its back."""
    walked: list[bool]
    """Whether the success function holds, with ants 5.2 m and 4.8 m away along x, and one 5.2 m along y."""
    repeats: Repeats


def observe(physics: str) -> Observed:
    """Shake ants, drop them, let them stand, turn one on its back, and carry three away."""
    from ledger_lab.tasks.ant.success import walked

    panel = robust("ant_v1")
    count = len(panel.episodes) + 2
    with simulated(panel.task, physics, count) as env:
        seen = shaken(env)
        env.reset()
        base, robot = env.unwrapped, env.unwrapped.scene["robot"]
        feet = [base.scene["joint_wrench"].body_names.index(f"{limb}_foot") for limb in LIMBS]

        def pose() -> torch.Tensor:
            return robot.data.root_link_pose_w.torch.clone()

        def forces() -> torch.Tensor:
            return base.scene["joint_wrench"].data.force.torch[:, feet].norm(dim=-1)

        idle = torch.zeros(count, 8)
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

        moved = pose()
        moved[1, 2:] = torch.tensor([0.26, 1.0, 0.0, 0.0, 0.0])  # xyzw: half a turn about x
        moved[2:4, 0] += torch.tensor([5.2, 4.8])
        moved[4, 1] += 5.2
        robot.write_root_pose_to_sim_index(root_pose=moved)
        far = walked(base, distance_m=5.0).tolist()
        env.step(idle)
        limits = robot.data.joint_pos_limits.torch[0].rad2deg()
        return Observed(
            shaken=seen,
            joint_limits_deg=dict(zip(robot.joint_names, map(tuple, limits.tolist()), strict=True)),
            fall_velocity_m_s=fall_velocity,
            force_in_air=force_in_air,
            force_at_rest=force_at_rest,
            height_at_rest_m=height,
            fallen=base.termination_manager.get_term("torso_height").tolist(),
            walked=far,
            repeats=taken_twice(env, panel),
        )


@pytest.fixture(scope="module", params=ENGINES)
def observed(request: pytest.FixtureRequest) -> Observed:
    return observe(request.param)


def test_spaces_and_joints_are_those_of_isaac_lab(observed: Observed) -> None:
    observed.shaken.check(observations=60, actions=8, seeded=28)  # up to the forces on the feet, which have a memory
    breadth_first = [f"{limb}_{part}" for part in ("leg", "foot") for limb in LIMBS]
    assert list(observed.joint_limits_deg) == breadth_first, "as PhysX has them, under every engine"
    for name, limits in observed.joint_limits_deg.items():
        bent = (30.0, 100.0) if name in ("front_left_foot", "right_back_foot") else (-100.0, -30.0)
        assert limits == pytest.approx((-40.0, 40.0) if name.endswith("leg") else bent, rel=1e-4)


def test_the_ant_falls_freely_until_its_feet_carry_its_body(observed: Observed) -> None:
    fall = torch.full_like(observed.fall_velocity_m_s, -GRAVITY_M_S2 / 60)
    assert observed.fall_velocity_m_s == pytest.approx(fall.numpy(), abs=0.02)
    assert (observed.force_in_air < 0.2).all()
    assert (observed.force_at_rest.sum(dim=1) > 5.0).all(), "they carry a weight of 6.3 N"
    assert ((observed.height_at_rest_m > 0.35) & (observed.height_at_rest_m < 0.6)).all()


def test_only_the_ant_on_its_back_has_fallen_and_the_one_far_along_x_has_walked(observed: Observed) -> None:
    assert observed.fallen == [index == 1 for index in range(len(observed.fallen))]
    assert observed.walked == [index == 2 for index in range(len(observed.walked))]


def test_every_cell_of_the_robustness_panel_is_felt(observed: Observed) -> None:
    observed.repeats.check()
