"""Writes the USD files of this folder.

Run it after a change here and commit what it writes::

    ./isaaclab.sh -p -m ledger_lab.assets.build

The cart-pole has the dimensions and masses of the well-known benchmark (IsaacGymEnvs, ``assets/urdf/cartpole.urdf``):
a cart of 1 kg on a rail of 8 m, and a pole of 1 kg and 1 m that starts 0.03 m below its hinge. Bodies are flat children
of the root, as Isaac Lab expects, and every joint frame lies at its body's origin.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics

from ledger_lab.assets import ASSET_ROOT

RAIL_LENGTH_M = 8.0
CART_SIZE_M = (0.2, 0.25, 0.2)
CART_MASS_KG = 1.0
POLE_SIZE_M = (0.04, 0.06, 1.0)
POLE_MASS_KG = 1.0
POLE_CENTRE_M = 0.47
HINGE_OFFSET_M = 0.12
CART_TRAVEL_M = 4.0

GREY, ORANGE, BLUE = (0.45, 0.46, 0.48), (0.93, 0.45, 0.13), (0.16, 0.36, 0.62)


def main() -> None:
    """Write every asset into a folder."""
    parser = argparse.ArgumentParser(description="Write the USD assets of LedgerLab.")
    parser.add_argument("--output", type=Path, default=ASSET_ROOT, help="Folder to write to (default: the package's).")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    write_cartpole(output / "cartpole.usda")
    write_ground(output / "ground.usda")


def write_cartpole(path: Path) -> None:
    """Write a cart that slides along y and carries a pole that turns about x.

    Args:
        path: File to write; an existing one is replaced.
    """
    stage = _new_stage(path, "Cartpole")
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
        centre_m=(0.0, 0.0, POLE_CENTRE_M),
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


def write_ground(path: Path, half_size_m: float = 50.0) -> None:
    """Write an infinite collision plane with a visible, non-colliding square.

    Args:
        path: File to write; an existing one is replaced.
        half_size_m: Half the side of the visible square [m].
    """
    stage = _new_stage(path, "Ground")
    UsdGeom.Xform.Define(stage, "/Ground")
    plane = UsdGeom.Plane.Define(stage, "/Ground/collision")
    plane.CreateAxisAttr("Z")
    plane.CreatePurposeAttr(UsdGeom.Tokens.guide)
    UsdPhysics.CollisionAPI.Apply(plane.GetPrim())

    square = UsdGeom.Mesh.Define(stage, "/Ground/visual")
    corners = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
    square.CreatePointsAttr([Gf.Vec3f(x * half_size_m, y * half_size_m, 0.0) for x, y in corners])
    square.CreateFaceVertexCountsAttr([4])
    square.CreateFaceVertexIndicesAttr([0, 1, 2, 3])
    square.CreateDisplayColorAttr([Gf.Vec3f(0.32, 0.34, 0.36)])
    stage.Save()


def _new_stage(path: Path, default_prim: str) -> Usd.Stage:
    """Create an empty stage in metres and kilograms with z up."""
    path.unlink(missing_ok=True)
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    stage.SetDefaultPrim(stage.DefinePrim(f"/{default_prim}"))
    return stage


def _body(
    stage: Usd.Stage,
    name: str,
    *,
    mass_kg: float,
    size_m: tuple[float, float, float],
    color: tuple[float, float, float],
    position_m: tuple[float, float, float] = (0.0, 0.0, 0.0),
    centre_m: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Sdf.Path:
    """Add a solid box as a rigid body without collision.

    Args:
        stage: Stage to add to.
        name: Prim name below the root.
        mass_kg: Mass [kg].
        size_m: Side lengths [m].
        color: Linear RGB in 0..1.
        position_m: Position of the body frame in the root frame [m].
        centre_m: Centre of the box, and of mass, in the body frame [m].

    Returns:
        Path of the body's prim.
    """
    body = UsdGeom.Xform.Define(stage, f"/Cartpole/{name}")
    body.AddTranslateOp().Set(Gf.Vec3d(*position_m))
    UsdPhysics.RigidBodyAPI.Apply(body.GetPrim())
    mass = UsdPhysics.MassAPI.Apply(body.GetPrim())
    mass.CreateMassAttr(mass_kg)
    mass.CreateCenterOfMassAttr(Gf.Vec3f(*centre_m))
    x, y, z = (side * side for side in size_m)
    mass.CreateDiagonalInertiaAttr(Gf.Vec3f(y + z, x + z, x + y) * (mass_kg / 12.0))
    mass.CreatePrincipalAxesAttr(Gf.Quatf(1.0))

    box = UsdGeom.Cube.Define(stage, f"/Cartpole/{name}/visual")
    box.CreateSizeAttr(1.0)
    box.AddTranslateOp().Set(Gf.Vec3d(*centre_m))
    box.AddScaleOp().Set(Gf.Vec3f(*size_m))
    box.CreateDisplayColorAttr([Gf.Vec3f(*color)])
    return body.GetPath()


if __name__ == "__main__":
    main()
