"""The robots that ship as USD are those of their descriptions, as other libraries read these."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import pinocchio
import pytest
from pxr import Gf, Usd, UsdGeom, UsdPhysics
from scipy.spatial.transform import Rotation

from ledger_lab.tasks.assets import ANYMAL_C_USD, DESCRIPTIONS, GO2_USD, HUMANOID_USD, PANDA_USD

URDF_ROBOTS = {
    ANYMAL_C_USD: DESCRIPTIONS / "anymal_c/anymal.urdf",
    GO2_USD: DESCRIPTIONS / "go2/go2.urdf",
    PANDA_USD: DESCRIPTIONS / "panda/panda.urdf",
}
LEGS = {ANYMAL_C_USD: ("LF", "LH", "RF", "RH"), GO2_USD: ("FL", "FR", "RL", "RR")}
PARTS = {ANYMAL_C_USD: ("HIP", "THIGH", "SHANK", "FOOT"), GO2_USD: ("hip", "thigh", "calf", "foot")}


@dataclass(frozen=True)
class Mass:
    mass_kg: float
    center_m: np.ndarray
    inertia: np.ndarray
    """About the center, along the body's axes, shape (3, 3)."""


@dataclass(frozen=True)
class Hinge:
    """A joint, with its frame in both bodies, shape (4, 4) each."""

    parent: str
    child: str
    on_parent: np.ndarray
    on_child: np.ndarray
    slides: bool
    axes: tuple[int, ...]
    """Which axes of that frame move: 0, 1, 2 for x, y, z."""
    limits: tuple[tuple[float, float], ...]
    """[rad] or [m]."""
    max_effort: float | None
    max_velocity: float | None


class Stage:
    """A robot as its USD says it is, read with nothing but USD."""

    def __init__(self, path: Path) -> None:
        self.stage = Usd.Stage.Open(str(path))
        self.root = self.stage.GetDefaultPrim()
        prims = [p for p in self.root.GetChildren() if p.HasAPI(UsdPhysics.RigidBodyAPI)]
        self.rest = {p.GetName(): np.array(UsdGeom.Xformable(p).GetLocalTransformation()).T for p in prims}
        self.masses = {p.GetName(): _mass(p) for p in prims}
        self.joints = {
            p.GetName(): _hinge(p) for p in self.stage.Traverse() if p.IsA(UsdPhysics.Joint) and _has_parent(p)
        }

    def poses(self, positions: dict[str, tuple[float, ...]]) -> dict[str, np.ndarray]:
        """Return the pose of every body in the base's frame where its joints are at these positions."""
        found = {next(iter(self.rest)): np.eye(4)}
        for name, joint in self.joints.items():
            move = np.eye(4)
            for axis, position in zip(joint.axes, positions.get(name, ()), strict=True):
                step = np.eye(4)
                if joint.slides:
                    step[axis, 3] = position
                else:
                    step[:3, :3] = Rotation.from_rotvec(position * np.eye(3)[axis]).as_matrix()
                move = move @ step
            found[joint.child] = found[joint.parent] @ joint.on_parent @ move @ np.linalg.inv(joint.on_child)
        return found


def _has_parent(prim: Usd.Prim) -> bool:
    return bool(UsdPhysics.Joint(prim).GetBody0Rel().GetTargets())


def _mass(prim: Usd.Prim) -> Mass:
    api = UsdPhysics.MassAPI(prim)
    axes = np.array(Gf.Matrix3d(Gf.Quatd(api.GetPrincipalAxesAttr().Get()))).T
    inertia = axes @ np.diag(api.GetDiagonalInertiaAttr().Get()) @ axes.T
    return Mass(api.GetMassAttr().Get(), np.array(api.GetCenterOfMassAttr().Get()), inertia)


def _hinge(prim: Usd.Prim) -> Hinge:
    joint = UsdPhysics.Joint(prim)
    frames = []
    for place, turn in (
        (joint.GetLocalPos0Attr(), joint.GetLocalRot0Attr()),
        (joint.GetLocalPos1Attr(), joint.GetLocalRot1Attr()),
    ):
        frame = np.eye(4)
        frame[:3, :3] = np.array(Gf.Matrix3d(Gf.Quatd(turn.Get()))).T
        frame[:3, 3] = place.Get()
        frames.append(frame)
    slides = prim.IsA(UsdPhysics.PrismaticJoint)
    unit = 1.0 if slides else math.pi / 180
    axes, limits, drive, velocity = (), (), None, None
    if prim.GetTypeName() in ("PhysicsRevoluteJoint", "PhysicsPrismaticJoint"):
        typed = UsdPhysics.PrismaticJoint(prim) if slides else UsdPhysics.RevoluteJoint(prim)
        axes = ("XYZ".index(typed.GetAxisAttr().Get()),)
        limits = ((typed.GetLowerLimitAttr().Get() * unit, typed.GetUpperLimitAttr().Get() * unit),)
        drive = UsdPhysics.DriveAPI(prim, "linear" if slides else "angular").GetMaxForceAttr().Get()
        velocity = prim.GetAttribute("physxJoint:maxJointVelocity").Get()
        velocity = None if velocity is None else velocity * unit
    elif prim.GetTypeName() == "PhysicsJoint":
        free = [n for n in range(3) if _range(prim, f"rot{'XYZ'[n]}")[0] < _range(prim, f"rot{'XYZ'[n]}")[1]]
        assert all(_range(prim, f"trans{axis}") == (1.0, -1.0) for axis in "XYZ"), "locked"
        axes = tuple(free)
        limits = tuple(tuple(math.radians(bound) for bound in _range(prim, f"rot{'XYZ'[n]}")) for n in free)
    body0, body1 = (rel.GetTargets()[0].name for rel in (joint.GetBody0Rel(), joint.GetBody1Rel()))
    return Hinge(body0, body1, *frames, slides, axes, limits, drive, velocity)


def _range(prim: Usd.Prim, name: str) -> tuple[float, float]:
    limit = UsdPhysics.LimitAPI(prim, name)
    return limit.GetLowAttr().Get(), limit.GetHighAttr().Get()


@pytest.fixture(scope="module")
def stages() -> dict[Path, Stage]:
    return {path: Stage(path) for path in (*URDF_ROBOTS, HUMANOID_USD)}


@pytest.fixture(scope="module")
def described() -> dict[Path, pinocchio.Model]:
    floating = pinocchio.JointModelFreeFlyer()
    return {path: pinocchio.buildModelFromUrdf(str(urdf), floating) for path, urdf in URDF_ROBOTS.items()}


@pytest.fixture(scope="module")
def humanoid() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(DESCRIPTIONS / "humanoid/humanoid.xml"))


@pytest.mark.parametrize("path", LEGS)
def test_legged_robots_have_isaac_labs_bodies_and_their_root_is_the_base(path: Path, stages: dict[Path, Stage]) -> None:
    stage = stages[path]
    assert sorted(stage.rest) == sorted(["base", *(f"{leg}_{part}" for leg in LEGS[path] for part in PARTS[path])])
    assert [p.GetName() for p in stage.stage.Traverse() if p.HasAPI(UsdPhysics.ArticulationRootAPI)] == ["base"]


@pytest.mark.parametrize("path", URDF_ROBOTS)
def test_joints_have_the_described_limits(
    path: Path, stages: dict[Path, Stage], described: dict[Path, pinocchio.Model]
) -> None:
    model = described[path]
    moving = {name: joint for name, joint in stages[path].joints.items() if joint.axes}
    assert sorted(moving) == sorted(model.names[2:]), "after the universe and the floating base"
    for name, joint in moving.items():
        q, v = (getattr(model.joints[model.getJointId(name)], index) for index in ("idx_q", "idx_v"))
        theirs = model.lowerPositionLimit[q], model.upperPositionLimit[q]
        assert joint.limits[0] == pytest.approx(theirs, rel=1e-5, abs=1e-6)
        assert joint.max_effort == pytest.approx(model.effortLimit[v])
        assert joint.max_velocity == pytest.approx(model.velocityLimit[v], rel=1e-5)


@pytest.mark.parametrize("path", URDF_ROBOTS)
def test_bodies_have_described_poses_and_masses_at_random_joint_positions(
    path: Path, stages: dict[Path, Stage], described: dict[Path, pinocchio.Model]
) -> None:
    """The inertia of the whole robot, at several poses, tells whether every part has its own."""
    stage, model = stages[path], described[path]
    data = model.createData()
    generator = np.random.default_rng(1)
    for _ in range(20):
        positions = {name: generator.uniform(*j.limits[0]) for name, j in stage.joints.items() if j.axes}
        q = pinocchio.neutral(model)
        for name, position in positions.items():
            q[model.joints[model.getJointId(name)].idx_q] = position
        pinocchio.framesForwardKinematics(model, data, q)
        poses = stage.poses({name: (position,) for name, position in positions.items()})
        for body, pose in poses.items():
            assert np.allclose(pose, data.oMf[model.getFrameId(body)].homogeneous, atol=2e-6)

        pinocchio.ccrba(model, data, q, np.zeros(model.nv))
        mass, center, inertia = _whole(stage, poses)
        assert mass == pytest.approx(pinocchio.computeTotalMass(model), rel=1e-6)
        assert np.allclose(center, data.com[0], atol=1e-6)
        assert np.allclose(inertia, data.Ig.inertia, rtol=1e-5, atol=1e-5)


def _whole(stage: Stage, poses: dict[str, np.ndarray]) -> tuple[float, np.ndarray, np.ndarray]:
    """Return mass, center and inertia about it of all bodies together."""
    parts = [(m.mass_kg, poses[b][:3, :3] @ m.center_m + poses[b][:3, 3], m, poses[b]) for b, m in stage.masses.items()]
    mass = sum(part[0] for part in parts)
    center = sum(m * c for m, c, *_ in parts) / mass
    inertia = np.zeros((3, 3))
    for m, c, own, pose in parts:
        arm, turn = c - center, pose[:3, :3]
        inertia += turn @ own.inertia @ turn.T + m * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return mass, center, inertia


def test_the_humanoid_has_described_poses_and_masses(stages: dict[Path, Stage], humanoid: mujoco.MjModel) -> None:
    stage, data = stages[HUMANOID_USD], mujoco.MjData(humanoid)
    generator = np.random.default_rng(1)
    for _ in range(20):
        positions = {}
        data.qpos[:] = 0.0
        data.qpos[3] = 1.0
        for name, joint in stage.joints.items():
            # where three axes turn about each other, USD's order is not MuJoCo's: move one of them
            moved = generator.integers(3) if len(joint.axes) == 3 else None
            own = [generator.uniform(*limit) if moved in (None, n) else 0.0 for n, limit in enumerate(joint.limits)]
            positions[name] = tuple(own)
            hinges = _mujocos_order(humanoid, joint)
            for hinge, position in zip(hinges, own, strict=True):
                data.qpos[humanoid.jnt_qposadr[hinge]] = position
        mujoco.mj_forward(humanoid, data)
        poses = stage.poses(positions)
        for body, pose in poses.items():
            assert np.allclose(pose[:3, 3], data.body(body).xpos, atol=3e-6)
            assert np.allclose(pose[:3, :3], data.body(body).xmat.reshape(3, 3), atol=3e-6)
        mass, center, inertia = _whole(stage, poses)
        assert mass == pytest.approx(humanoid.body_mass.sum(), rel=1e-6)
        assert np.allclose(center, data.subtree_com[0], atol=1e-6)
        theirs = {b: Mass(humanoid.body(b).mass[0], humanoid.body(b).ipos, _tensor(humanoid, b)) for b in stage.rest}
        for body, own in stage.masses.items():
            assert np.allclose(own.inertia, theirs[body].inertia, rtol=1e-4, atol=1e-7)
            assert np.allclose(own.center_m, theirs[body].center_m, atol=1e-6)


def _mujocos_order(model: mujoco.MjModel, joint: Hinge) -> list[int]:
    """Return MuJoCo's hinges of a body, each by the axis of the joint's frame that it turns about."""
    hinges = [j for j in range(model.njnt) if model.body(model.jnt_bodyid[j]).name == joint.child]
    return [
        next(h for h in hinges if np.allclose(model.jnt_axis[h], joint.on_child[:3, axis], atol=1e-6))
        for axis in joint.axes
    ]


def _tensor(model: mujoco.MjModel, body: str) -> np.ndarray:
    view = model.body(body)
    turn = Rotation.from_quat(view.iquat, scalar_first=True).as_matrix()
    return turn @ np.diag(view.inertia) @ turn.T


@pytest.mark.parametrize("path", [*URDF_ROBOTS, HUMANOID_USD])
def test_only_primitive_solids_collide(path: Path, stages: dict[Path, Stage]) -> None:
    solids = [p for p in stages[path].stage.Traverse() if p.HasAPI(UsdPhysics.CollisionAPI)]
    assert {p.GetTypeName() for p in solids} <= {"Cube", "Sphere", "Capsule", "Cylinder"}
    assert {p.GetParent().GetName() for p in solids} == stages[path].rest.keys()
    assert path.stat().st_size < 1_000_000


def test_every_description_has_its_license() -> None:
    folders = [folder for folder in DESCRIPTIONS.iterdir() if folder.is_dir()]
    licenses = {folder.name: (folder / "LICENSE").read_text() for folder in folders}
    apache = {name for name, text in licenses.items() if "Apache License" in text}
    bsd = {name for name, text in licenses.items() if "Redistribution and use in source and binary forms" in text}
    assert (apache, bsd) == ({"panda", "humanoid"}, {"anymal_c", "go2"})
    assert "Mozilla Public License Version 2.0" in (DESCRIPTIONS / "go2/LICENSE.MPL-2.0").read_text()
    notice = (DESCRIPTIONS / "NOTICE").read_text()
    assert {name for name in licenses if f"{name}.usda" in notice} == licenses.keys()
