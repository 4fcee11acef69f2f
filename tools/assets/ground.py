"""The ground as USD: a plane, and a plane with pillars."""

from __future__ import annotations

import math
import random
from pathlib import Path

from pxr import Gf, Usd, UsdGeom, UsdPhysics

from ledger_lab.tasks.assets import PILLAR_SPACING_M
from tools.assets.stage import new_stage

PILLAR_SIDE_M, PILLAR_HEIGHT_M = 0.4, 1.2
_HALF_SIZE_M = 50.0  # of the square that shows the plane
_PILLARS_PER_SIDE = 4
_PILLAR_JITTER_M = 0.3
_CORNERS = ((-1, -1), (1, -1), (1, 1), (-1, 1))


def write_ground(path: Path) -> None:
    """Write an infinite collision plane with a visible, non-colliding square.

    Args:
        path: File to write; an existing file is replaced.
    """
    _plane(path).Save()


def write_pillars(path: Path) -> None:
    """Write the ground with pillars: invisible boxes that collide, and one visible mesh of all of them.

    Args:
        path: File to write; an existing file is replaced.
    """
    stage = _plane(path)
    UsdGeom.Xform.Define(stage, "/Ground/solids")
    points: list[Gf.Vec3f] = []
    triangles: list[int] = []
    for number, (x, y, turn) in enumerate(pillars()):
        solid = UsdGeom.Cube.Define(stage, f"/Ground/solids/pillar_{number:02}")
        solid.CreateSizeAttr(1.0)
        solid.AddTranslateOp().Set(Gf.Vec3d(x, y, PILLAR_HEIGHT_M / 2))
        solid.AddRotateZOp().Set(round(math.degrees(turn), 3))
        solid.AddScaleOp().Set(Gf.Vec3f(PILLAR_SIDE_M, PILLAR_SIDE_M, PILLAR_HEIGHT_M))
        solid.CreatePurposeAttr(UsdGeom.Tokens.guide)
        UsdPhysics.CollisionAPI.Apply(solid.GetPrim())
        first, half = len(points), PILLAR_SIDE_M / 2
        for height in (0.0, PILLAR_HEIGHT_M):
            for right, ahead in _CORNERS:
                east = half * (right * math.cos(turn) - ahead * math.sin(turn))
                north = half * (right * math.sin(turn) + ahead * math.cos(turn))
                points.append(Gf.Vec3f(round(x + east, 5), round(y + north, 5), height))
        for side in range(4):
            left, right = first + side, first + (side + 1) % 4
            triangles += [left, right, right + 4, left, right + 4, left + 4]
        triangles += [first + corner for corner in (4, 5, 6, 4, 6, 7)]
    mesh = UsdGeom.Mesh.Define(stage, "/Ground/pillars")
    mesh.CreatePointsAttr(points)
    mesh.CreateFaceVertexCountsAttr([3] * (len(triangles) // 3))
    mesh.CreateFaceVertexIndicesAttr(triangles)
    mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
    mesh.CreateDisplayColorAttr([Gf.Vec3f(0.75, 0.45, 0.2)])
    stage.Save()


def pillars() -> list[tuple[float, float, float]]:
    """Return the pillars' positions: x and y of the center [m], and the yaw angle [rad].

    They are near the corners of the cells of a square of three by three, which is centered at the origin. The cells
    are :data:`PILLAR_SPACING_M` wide; neighbouring pillars leave room to walk.
    """
    draws = random.Random(0)
    middle = (_PILLARS_PER_SIDE - 1) / 2
    return [
        (
            round(PILLAR_SPACING_M * (row - middle) + draws.uniform(-_PILLAR_JITTER_M, _PILLAR_JITTER_M), 3),
            round(PILLAR_SPACING_M * (column - middle) + draws.uniform(-_PILLAR_JITTER_M, _PILLAR_JITTER_M), 3),
            round(draws.uniform(0.0, math.pi / 2), 3),
        )
        for row in range(_PILLARS_PER_SIDE)
        for column in range(_PILLARS_PER_SIDE)
    ]


def _plane(path: Path) -> Usd.Stage:
    """Return a stage with an infinite collision plane and a visible square.

    Args:
        path: File that the stage is saved to.
    """
    stage = new_stage(path, "Ground")
    UsdGeom.Xform.Define(stage, "/Ground")
    plane = UsdGeom.Plane.Define(stage, "/Ground/collision")
    plane.CreateAxisAttr("Z")
    plane.CreatePurposeAttr(UsdGeom.Tokens.guide)
    UsdPhysics.CollisionAPI.Apply(plane.GetPrim())

    square = UsdGeom.Mesh.Define(stage, "/Ground/visual")
    square.CreatePointsAttr([Gf.Vec3f(x * _HALF_SIZE_M, y * _HALF_SIZE_M, 0.0) for x, y in _CORNERS])
    square.CreateFaceVertexCountsAttr([4])
    square.CreateFaceVertexIndicesAttr([0, 1, 2, 3])
    square.CreateDisplayColorAttr([Gf.Vec3f(0.32, 0.34, 0.36)])
    return stage
