"""Writes robots as USD in Isaac Lab's shape.

Bodies are direct children of the root prim, and joints have a scope of their own. The articulation's root is the base;
if the base is bolted to the world, it is the root prim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, Vt
from scipy.spatial.transform import Rotation

from ledger_lab.errors import UserError
from tools.assets.robot import Array, Axis, Body, Joint, Robot, Shape
from tools.assets.stage import new_stage

type Color = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class Mesh:
    """A part of a mesh in one color."""

    points_m: Array
    """Shape (points, 3) [m]."""
    triangles: NDArray[np.int64]
    """Indices of points, shape (triangles, 3)."""
    color: Color
    """Linear RGB in 0..1."""


def write_robot(
    path: Path, robot: Robot, meshes: Mapping[str, Sequence[Mesh]], paint: Callable[[str], Color] | None = None
) -> None:
    """Write a robot.

    Args:
        path: File to write; an existing file is replaced.
        robot: The robot; every body stays separate.
        meshes: Parts of each mesh that a body names. A body with meshes hides its colliding solids.
        paint: Returns by name the color of a body's solids, for bodies without meshes.
    """
    stage = new_stage(path, robot.name)
    root = UsdGeom.Xform.Define(stage, f"/{robot.name}").GetPrim()
    world: dict[str, Array] = {}
    for body in robot.bodies:
        world[body.name] = body.pose if body.parent is None else world[body.parent] @ body.pose
        _write_body(stage, robot, body, world[body.name], meshes, paint)
    base = robot.bodies[0].name
    UsdPhysics.ArticulationRootAPI.Apply(root if robot.fixed_base else stage.GetPrimAtPath(f"/{robot.name}/{base}"))
    if robot.fixed_base:
        bolt = UsdPhysics.FixedJoint.Define(stage, f"/{robot.name}/joints/world_to_{base}")
        bolt.CreateBody1Rel().SetTargets([f"/{robot.name}/{base}"])
    for body in robot.bodies:
        if body.joint is not None:
            _write_joint(stage, robot, body, body.joint)
    stage.Save()


def _write_body(
    stage: Usd.Stage,
    robot: Robot,
    body: Body,
    pose: Array,
    meshes: Mapping[str, Sequence[Mesh]],
    paint: Callable[[str], Color] | None,
) -> None:
    """Add a body with its mass, solids and meshes."""
    xform = UsdGeom.Xform.Define(stage, f"/{robot.name}/{body.name}")
    _place(xform, pose)
    prim = xform.GetPrim()
    UsdPhysics.RigidBodyAPI.Apply(prim)
    moments, axes = _principal(body.inertia)
    mass = UsdPhysics.MassAPI.Apply(prim)
    mass.CreateMassAttr(_tidy(body.mass_kg))
    mass.CreateCenterOfMassAttr(_vector(body.center_m))
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*moments))
    mass.CreatePrincipalAxesAttr(_quaternion(axes))
    for number, shape in enumerate(body.shapes):
        solid = _solid(stage, f"{prim.GetPath()}/{shape.kind.lower()}_{number}", shape)
        UsdPhysics.CollisionAPI.Apply(solid.GetPrim())
        if meshes:
            solid.CreatePurposeAttr(UsdGeom.Tokens.guide)
        elif paint is not None:
            solid.CreateDisplayColorAttr([Gf.Vec3f(*paint(body.name))])
    parts = [(look, part) for look in body.looks for part in meshes[look.mesh]]
    for number, (look, part) in enumerate(parts):
        mesh = UsdGeom.Mesh.Define(stage, f"{prim.GetPath()}/look_{number}")
        points = part.points_m @ look.pose[:3, :3].T + look.pose[:3, 3]
        mesh.CreatePointsAttr(Vt.Vec3fArray([Gf.Vec3f(*map(float, point)) for point in np.round(points, 4) + 0.0]))
        mesh.CreateFaceVertexCountsAttr([3] * len(part.triangles))
        mesh.CreateFaceVertexIndicesAttr(part.triangles.flatten().tolist())
        mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
        mesh.CreateDisplayColorAttr([Gf.Vec3f(*(round(channel, 3) for channel in part.color))])


def _solid(stage: Usd.Stage, path: str, shape: Shape) -> UsdGeom.Gprim:
    """Add a solid."""
    solid: UsdGeom.Gprim = getattr(UsdGeom, shape.kind).Define(stage, path)
    _place(solid, shape.pose)
    if shape.kind == "Cube":
        solid.CreateSizeAttr(1.0)
        solid.AddScaleOp().Set(_vector(np.array(shape.size_m)))
        return solid
    solid.CreateRadiusAttr(_tidy(shape.size_m[0]))
    if shape.kind != "Sphere":
        solid.CreateAxisAttr("Z")
        solid.CreateHeightAttr(_tidy(shape.size_m[1]))
    return solid


def _write_joint(stage: Usd.Stage, robot: Robot, body: Body, joint: Joint) -> None:
    """Add a joint whose frame's axes are its axes of motion."""
    path = f"/{robot.name}/joints/{joint.name}"
    axes = _right_handed(joint.name, joint.axes)
    usd: UsdPhysics.Joint
    if not axes:
        usd = UsdPhysics.FixedJoint.Define(stage, path)
        token, frame = "", np.eye(3)
    elif len(axes) == 1:
        usd = (UsdPhysics.PrismaticJoint if joint.slides else UsdPhysics.RevoluteJoint).Define(stage, path)
        token, frame = _single_axis_frame(axes[0].direction)
        usd.CreateAxisAttr(token)
        _limit(usd, axes[0], joint.slides)
        _drive(usd.GetPrim(), "linear" if joint.slides else "angular", axes[0])
    else:
        usd = UsdPhysics.Joint.Define(stage, path)
        frame = np.column_stack([axis.direction for axis in axes])
        if len(axes) == 2:
            frame = np.column_stack([frame, np.cross(frame[:, 0], frame[:, 1])])
        for locked in ("transX", "transY", "transZ", *(("rotZ",) if len(axes) == 2 else ())):
            _range(usd.GetPrim(), locked, 1.0, -1.0)  # in USD, low > high means locked
        for name, axis in zip(("rotX", "rotY", "rotZ"), axes, strict=False):
            _range(usd.GetPrim(), name, _tidy(math.degrees(axis.lower)), _tidy(math.degrees(axis.upper)))
            _drive(usd.GetPrim(), name, axis)
    usd.CreateBody0Rel().SetTargets([f"/{robot.name}/{body.parent}"])
    usd.CreateBody1Rel().SetTargets([f"/{robot.name}/{body.name}"])
    usd.CreateLocalPos0Attr(_vector(body.pose[:3, :3] @ joint.anchor_m + body.pose[:3, 3]))
    usd.CreateLocalPos1Attr(_vector(joint.anchor_m))
    usd.CreateLocalRot0Attr(_quaternion(body.pose[:3, :3] @ frame))
    usd.CreateLocalRot1Attr(_quaternion(frame))


def _right_handed(joint: str, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Return perpendicular axes in an order that makes a right-handed frame."""
    directions = np.array([axis.direction for axis in axes])
    if len(axes) > 1 and not np.allclose(directions @ directions.T, np.eye(len(axes)), atol=1e-6):
        raise UserError(f"joint {joint}: its axes must stand at right angles on each other")
    if len(axes) == 3 and np.linalg.det(directions) < 0:
        return axes[0], axes[2], axes[1]
    return axes


def _single_axis_frame(direction: Array) -> tuple[str, Array]:
    """Return USD's name of an axis, and the frame in which it is that axis."""
    for token, unit in zip("XYZ", np.eye(3), strict=True):
        if np.allclose(direction, unit, atol=1e-9):
            return token, np.eye(3)
    half_turn = np.diag([-1.0, 1.0, -1.0])
    if np.allclose(direction, -np.eye(3)[0], atol=1e-9):
        return "X", half_turn
    return "X", Rotation.align_vectors([direction], [[1.0, 0.0, 0.0]])[0].as_matrix()


def _limit(joint: UsdPhysics.RevoluteJoint | UsdPhysics.PrismaticJoint, axis: Axis, slides: bool) -> None:
    """Limit the motion about or along one axis."""
    for create, bound in ((joint.CreateLowerLimitAttr, axis.lower), (joint.CreateUpperLimitAttr, axis.upper)):
        create(_tidy(bound if slides else math.degrees(bound)))
    if axis.max_velocity is not None:
        joint.GetPrim().AddAppliedSchema("PhysxJointAPI")
        velocity = axis.max_velocity if slides else math.degrees(axis.max_velocity)
        attribute = joint.GetPrim().CreateAttribute(
            "physxJoint:maxJointVelocity", Sdf.ValueTypeNames.Float, custom=False
        )
        attribute.Set(_tidy(velocity))


def _range(joint: Usd.Prim, name: str, low: float, high: float) -> None:
    """Limit one axis of a joint with several axes."""
    limit = UsdPhysics.LimitAPI.Apply(joint, name)
    limit.CreateLowAttr(low)
    limit.CreateHighAttr(high)


def _drive(joint: Usd.Prim, name: str, axis: Axis) -> None:
    """Allow an axis to be driven, up to its described effort."""
    drive = UsdPhysics.DriveAPI.Apply(joint, name)
    drive.CreateTypeAttr("force")
    if axis.max_effort is not None:
        drive.CreateMaxForceAttr(_tidy(axis.max_effort))


def _place(prim: UsdGeom.Xformable, pose: Array) -> None:
    """Move a prim to a pose, shape (4, 4) [m]."""
    if not np.allclose(pose[:3, 3], 0.0, atol=1e-9):
        prim.AddTranslateOp().Set(Gf.Vec3d(*(_tidy(x) for x in pose[:3, 3])))
    if not np.allclose(pose[:3, :3], np.eye(3), atol=1e-9):
        prim.AddOrientOp().Set(_quaternion(pose[:3, :3]))


def _principal(inertia: Array) -> tuple[list[float], Array]:
    """Return the principal moments of an inertia [kg·m²], and their axes as the columns of a rotation."""
    moments, quaternion, scale = np.zeros(3), np.zeros(4), float(np.abs(inertia).max()) or 1.0
    mujoco.mju_eig3(moments, np.zeros(9), quaternion, np.round(inertia / scale, 12).flatten())
    axes = Rotation.from_quat(quaternion, scalar_first=True).as_matrix()
    return [float(f"{moment * scale:.7g}") for moment in moments], axes


def _quaternion(turn: Array) -> Gf.Quatf:
    """Return a rotation as the one of its two quaternions whose first component is positive."""
    parts = np.round(Rotation.from_matrix(turn).as_quat(canonical=True, scalar_first=True), 7) + 0.0
    return Gf.Quatf(*map(float, parts))


def _vector(values: Array) -> Gf.Vec3f:
    """Return three numbers."""
    return Gf.Vec3f(*(_tidy(value) for value in values))


def _tidy(value: float) -> float:
    """Round off the digits that differ between processors, and the sign of zero."""
    return round(float(value), 9) + 0.0
