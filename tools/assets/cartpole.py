"""The cart-pole as USD.

It has the dimensions and masses of the well-known benchmark (IsaacGymEnvs, ``assets/urdf/cartpole.urdf``): a cart of
1 kg on a rail of 8 m, and a pole of 1 kg and 1 m that starts 0.03 m below its hinge. Bodies are flat children of the
root, as Isaac Lab expects, and every joint frame lies at its body's origin.
"""

from __future__ import annotations

from pathlib import Path

from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics

from tools.assets.stage import new_stage

RAIL_LENGTH_M = 8.0
CART_SIZE_M = (0.2, 0.25, 0.2)
CART_MASS_KG = 1.0
POLE_SIZE_M = (0.04, 0.06, 1.0)
POLE_MASS_KG = 1.0
POLE_CENTER_M = 0.47
HINGE_OFFSET_M = 0.12
CART_TRAVEL_M = 4.0

GREY, ORANGE, BLUE = (0.45, 0.46, 0.48), (0.93, 0.45, 0.13), (0.16, 0.36, 0.62)


def write_cartpole(path: Path) -> None:
    """Write a cart that slides along y and carries a pole that turns about x.

    Args:
        path: File to write; an existing file is replaced.
    """
    stage = new_stage(path, "Cartpole")
    root = UsdGeom.Xform.Define(stage, "/Cartpole").GetPrim()
    UsdPhysics.ArticulationRootAPI.Apply(root)

    rail = _body(stage, "rail", mass_kg=1.0, size_m=(0.03, RAIL_LENGTH_M, 0.03), color=GREY)
    cart = _body(stage, "cart", mass_kg=CART_MASS_KG, size_m=CART_SIZE_M, color=BLUE)
    pole = _body(
        stage,
        "pole",
        mass_kg=POLE_MASS_KG,
        size_m=POLE_SIZE_M,
        color=ORANGE,
        position_m=(HINGE_OFFSET_M, 0.0, 0.0),
        center_m=(0.0, 0.0, POLE_CENTER_M),
    )

    anchor = UsdPhysics.FixedJoint.Define(stage, "/Cartpole/joints/world_to_rail")
    anchor.CreateBody1Rel().SetTargets([rail])

    slider = UsdPhysics.PrismaticJoint.Define(stage, "/Cartpole/joints/slider_to_cart")
    slider.CreateBody0Rel().SetTargets([rail])
    slider.CreateBody1Rel().SetTargets([cart])
    slider.CreateAxisAttr("Y")
    slider.CreateLowerLimitAttr(-CART_TRAVEL_M)
    slider.CreateUpperLimitAttr(CART_TRAVEL_M)
    UsdPhysics.DriveAPI.Apply(slider.GetPrim(), "linear").CreateTypeAttr("force")

    hinge = UsdPhysics.RevoluteJoint.Define(stage, "/Cartpole/joints/cart_to_pole")
    hinge.CreateBody0Rel().SetTargets([cart])
    hinge.CreateBody1Rel().SetTargets([pole])
    hinge.CreateLocalPos0Attr(Gf.Vec3f(HINGE_OFFSET_M, 0.0, 0.0))
    hinge.CreateAxisAttr("X")
    UsdPhysics.DriveAPI.Apply(hinge.GetPrim(), "angular").CreateTypeAttr("force")
    stage.Save()


def _body(
    stage: Usd.Stage,
    name: str,
    *,
    mass_kg: float,
    size_m: tuple[float, float, float],
    color: tuple[float, float, float],
    position_m: tuple[float, float, float] = (0.0, 0.0, 0.0),
    center_m: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Sdf.Path:
    """Add a solid box as a rigid body without collision.

    Args:
        stage: Stage to add to.
        name: Prim name below the root.
        mass_kg: Mass [kg].
        size_m: Side lengths [m].
        color: Linear RGB in 0..1.
        position_m: Position of the body frame in the root frame [m].
        center_m: Center of the box, and of mass, in the body frame [m].

    Returns:
        Path of the body's prim.
    """
    body = UsdGeom.Xform.Define(stage, f"/Cartpole/{name}")
    body.AddTranslateOp().Set(Gf.Vec3d(*position_m))
    UsdPhysics.RigidBodyAPI.Apply(body.GetPrim())
    mass = UsdPhysics.MassAPI.Apply(body.GetPrim())
    mass.CreateMassAttr(mass_kg)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(*center_m))
    x, y, z = (side * side for side in size_m)
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(y + z, x + z, x + y) * (mass_kg / 12.0))
    mass.CreatePrincipalAxesAttr(Gf.Quatf(1.0))

    box = UsdGeom.Cube.Define(stage, f"/Cartpole/{name}/visual")
    box.CreateSizeAttr(1.0)
    box.AddTranslateOp().Set(Gf.Vec3d(*center_m))
    box.AddScaleOp().Set(Gf.Vec3f(*size_m))
    box.CreateDisplayColorAttr([Gf.Vec3f(*color)])
    return body.GetPath()
