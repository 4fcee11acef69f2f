"""Imports a flat terrain without a network."""

from __future__ import annotations

import isaaclab.sim as sim_utils
from isaaclab.terrains import TerrainImporter

from ledger_lab.tasks.assets import GROUND_USD


class LocalPlaneImporter(TerrainImporter):
    """Isaac Lab's importer, with LedgerLab's ground as its plane."""

    def import_ground_plane(self, name: str, size: tuple[float, float] | None = None) -> None:
        """Add the plane.

        Args:
            name: Name of the terrain.
            size: Size of the visible plane, which is not used: LedgerLab's has one size.
        """
        prim_path = f"{self.cfg.prim_path}/{name}"
        self.terrain_prim_paths.append(prim_path)
        ground = sim_utils.GroundPlaneCfg(usd_path=str(GROUND_USD), physics_material=self.cfg.physics_material)
        ground.func(prim_path, ground)
