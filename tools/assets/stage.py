"""Creates the stages of all assets."""

from __future__ import annotations

from pathlib import Path

from pxr import Usd, UsdGeom, UsdPhysics


def new_stage(path: Path, default_prim: str) -> Usd.Stage:
    """Create an empty stage in meters and kilograms with z up.

    Args:
        path: File to write; an existing file is replaced.
        default_prim: Name of the root prim.
    """
    path.unlink(missing_ok=True)
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    stage.SetDefaultPrim(stage.DefinePrim(f"/{default_prim}"))
    return stage
