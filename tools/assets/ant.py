"""The ant as USD.

It has the dimensions, density, joint axes and joint limits of the well-known benchmark (Schulman et al. 2015,
arXiv:1506.02438; IsaacGymEnvs, ``assets/mjcf/nv_ant.xml``), and the names of Isaac Lab's own ant: a spherical torso
with four legs of two capsules each, stretched out horizontally where all joints are zero. It walks along +x. Bodies are
flat children of the root, as Isaac Lab expects, and every joint frame lies at its body's origin.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from pxr import Gf, Usd, UsdGeom, UsdPhysics

from tools.assets.stage import new_stage

DENSITY_KG_M3 = 5.0
TORSO_RADIUS_M = 0.25
LIMB_RADIUS_M = 0.08
HIP_REACH_M, LEG_REACH_M, FOOT_REACH_M = 0.2, 0.2, 0.4
"""Reach of each part of a limb along x and along y [m]."""
HIP_LIMIT_DEG = 40.0
ANKLE_LIMITS_DEG = (30.0, 100.0)

LIMBS = {"front_left": (1, 1), "front_right": (-1, 1), "left_back": (-1, -1), "right_back": (1, -1)}
"""Signs of x and y towards which each limb points; the names are Isaac Lab's, where +y is the front."""

ORANGE, BLUE = (0.93, 0.45, 0.13), (0.16, 0.36, 0.62)


class Inertia(NamedTuple):
    """Mass of a solid, and its moments of inertia about its center."""

    mass_kg: float
    axial: float
    """About the axis of symmetry [kg·m²]."""
    transverse: float
    """About any axis at a right angle to it [kg·m²]."""


def write_ant(path: Path) -> None:
    """Write a torso with four legs, each with a hip that turns about z and an ankle that bends down.

    Args:
        path: File to write; an existing file is replaced.
    """
    stage = new_stage(path, "Ant")
    UsdGeom.Xform.Define(stage, "/Ant")
    UsdPhysics.ArticulationRootAPI.Apply(_torso(stage))
    for name, (x, y) in LIMBS.items():
        outward = Gf.Vec3d(x, y, 0)
        _limb(stage, f"{name}_leg", outward * HIP_REACH_M, (x, y), LEG_REACH_M)
        _limb(stage, f"{name}_foot", outward * (HIP_REACH_M + LEG_REACH_M), (x, y), FOOT_REACH_M)

        turn = _joint(stage, "torso", f"{name}_leg", outward * HIP_REACH_M)
        turn.CreateAxisAttr("Z")
        turn.CreateLowerLimitAttr(-HIP_LIMIT_DEG)
        turn.CreateUpperLimitAttr(HIP_LIMIT_DEG)

        bend = _joint(stage, f"{name}_leg", f"{name}_foot", outward * LEG_REACH_M)
        bend.CreateAxisAttr("Y")
        across = _about_z(45.0 * x * y)  # turns y perpendicular to the limb
        bend.CreateLocalRot0Attr(across)
        bend.CreateLocalRot1Attr(across)
        lower, upper = sorted(x * limit for limit in ANKLE_LIMITS_DEG)
        bend.CreateLowerLimitAttr(lower)
        bend.CreateUpperLimitAttr(upper)
    stage.Save()


def _torso(stage: Usd.Stage) -> Usd.Prim:
    """Add the sphere in the middle with the inner parts of the four limbs, and return its body."""
    body = UsdGeom.Xform.Define(stage, "/Ant/torso").GetPrim()
    UsdPhysics.RigidBodyAPI.Apply(body)
    sphere = UsdGeom.Sphere.Define(stage, "/Ant/torso/sphere")
    sphere.CreateRadiusAttr(TORSO_RADIUS_M)
    _solid(sphere, BLUE)
    for name, direction in LIMBS.items():
        _capsule(stage, f"/Ant/torso/{name}_hip", direction, HIP_REACH_M)

    ball, hip = _capsule_inertia(0.0, TORSO_RADIUS_M), _capsule_inertia(_length(HIP_REACH_M), LIMB_RADIUS_M)
    swing = hip.transverse + hip.mass_kg * (_length(HIP_REACH_M) / 2) ** 2
    level, upright = ball.axial + 2 * (hip.axial + swing), ball.axial + 4 * swing
    _mass(body, ball.mass_kg + 4 * hip.mass_kg, Gf.Vec3f(level, level, upright))
    return body


def _limb(stage: Usd.Stage, name: str, position_m: Gf.Vec3d, direction: tuple[int, int], reach_m: float) -> None:
    """Add a capsule that starts at the body's origin as a rigid body.

    Args:
        stage: Stage to add to.
        name: Prim name below the root.
        position_m: Position of the body frame in the root frame [m].
        direction: Signs of x and y towards which it points.
        reach_m: How far it reaches along x and along y [m].
    """
    body = UsdGeom.Xform.Define(stage, f"/Ant/{name}")
    body.AddTranslateOp().Set(position_m)
    UsdPhysics.RigidBodyAPI.Apply(body.GetPrim())
    center, heading_deg = _capsule(stage, f"/Ant/{name}/capsule", direction, reach_m)
    inertia = _capsule_inertia(_length(reach_m), LIMB_RADIUS_M)
    mass = _mass(body.GetPrim(), inertia.mass_kg, Gf.Vec3f(inertia.axial, inertia.transverse, inertia.transverse))
    mass.CreateCenterOfMassAttr(Gf.Vec3f(center))
    mass.CreatePrincipalAxesAttr(_about_z(heading_deg))


def _capsule(stage: Usd.Stage, path: str, direction: tuple[int, int], reach_m: float) -> tuple[Gf.Vec3d, float]:
    """Add a horizontal capsule from the parent's origin, and return its center [m] and its heading [deg]."""
    x, y = direction
    center, heading_deg = Gf.Vec3d(x, y, 0) * (reach_m / 2), math.degrees(math.atan2(y, x))
    capsule = UsdGeom.Capsule.Define(stage, path)
    capsule.CreateAxisAttr("X")
    capsule.CreateHeightAttr(_length(reach_m))
    capsule.CreateRadiusAttr(LIMB_RADIUS_M)
    capsule.AddTranslateOp().Set(center)
    capsule.AddRotateZOp().Set(heading_deg)
    _solid(capsule, ORANGE if x > 0 else BLUE)
    return center, heading_deg


def _solid(shape: UsdGeom.Gprim, color: tuple[float, float, float]) -> None:
    """Make a shape visible, with collision."""
    shape.CreateDisplayColorAttr([Gf.Vec3f(*color)])
    UsdPhysics.CollisionAPI.Apply(shape.GetPrim())


def _mass(body: Usd.Prim, mass_kg: float, diagonal_inertia: Gf.Vec3f) -> UsdPhysics.MassAPI:
    """Give a body its mass [kg] and its principal moments [kg·m²]."""
    mass = UsdPhysics.MassAPI.Apply(body)
    mass.CreateMassAttr(mass_kg)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(0.0))
    mass.CreateDiagonalInertiaAttr(diagonal_inertia)
    mass.CreatePrincipalAxesAttr(Gf.Quatf(1.0))
    return mass


def _joint(stage: Usd.Stage, parent: str, child: str, position_m: Gf.Vec3d) -> UsdPhysics.RevoluteJoint:
    """Attach a body's origin with a hinge to a position in the parent's frame [m]."""
    joint = UsdPhysics.RevoluteJoint.Define(stage, f"/Ant/joints/{child}")
    joint.CreateBody0Rel().SetTargets([f"/Ant/{parent}"])
    joint.CreateBody1Rel().SetTargets([f"/Ant/{child}"])
    joint.CreateLocalPos0Attr(Gf.Vec3f(position_m))
    UsdPhysics.DriveAPI.Apply(joint.GetPrim(), "angular").CreateTypeAttr("force")
    return joint


def _about_z(angle_deg: float) -> Gf.Quatf:
    """Return a rotation about z."""
    return Gf.Quatf(Gf.Rotation(Gf.Vec3d.ZAxis(), angle_deg).GetQuat())


def _length(reach_m: float) -> float:
    """Return the length of a part that reaches equally far along x and along y [m]."""
    return math.sqrt(2.0) * reach_m


def _capsule_inertia(length_m: float, radius_m: float) -> Inertia:
    """Return mass and moments of a solid capsule of the ant's density.

    Args:
        length_m: Length of the cylinder between the two half spheres [m]; 0 makes it a ball.
        radius_m: Radius [m].
    """
    cylinder = DENSITY_KG_M3 * math.pi * radius_m**2 * length_m
    ball = DENSITY_KG_M3 * math.pi * radius_m**3 * 4 / 3
    return Inertia(
        mass_kg=cylinder + ball,
        axial=cylinder * radius_m**2 / 2 + ball * radius_m**2 * 2 / 5,
        transverse=cylinder * (radius_m**2 / 4 + length_m**2 / 12)
        + ball * (radius_m**2 * 2 / 5 + length_m**2 / 4 + length_m * radius_m * 3 / 8),
    )
