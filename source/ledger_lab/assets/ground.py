"""The ground as USD."""

from __future__ import annotations

from pathlib import Path

from pxr import Gf, UsdGeom, UsdPhysics

from ledger_lab.assets.stage import new_stage


def write_ground(path: Path, half_size_m: float = 50.0) -> None:
    """Write an infinite collision plane with a visible, non-colliding square.

    Args:
        path: File to write; an existing one is replaced.
        half_size_m: Half the side of the visible square [m].
    """
    stage = new_stage(path, "Ground")
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
