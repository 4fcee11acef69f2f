"""Isaac Lab's ground plane is a file on the web. LedgerLab's own takes its place, so that no task needs a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import isaaclab.sim as sim_utils
from isaaclab.terrains import TerrainImporterCfg
from isaaclab.utils.string import ResolvableString

from ledger_lab.tasks.assets import GROUND_USD

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

PLANE_IMPORTER = "ledger_lab.tasks.assets.plane_importer:LocalPlaneImporter"
"""Class that imports a flat terrain without a network."""


def use_local_ground(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Put LedgerLab's ground in place of Isaac Lab's ground plane; friction and restitution stay.

    Both are infinite planes. A plane of the user's own file stays, and so does the terrain of an importer of their own.

    Args:
        env_cfg: Resolved configuration; it is changed.
    """
    stock, importer = sim_utils.GroundPlaneCfg().usd_path, TerrainImporterCfg(prim_path="").class_type
    for part in vars(env_cfg.scene).values():
        spawn = getattr(part, "spawn", None)
        if isinstance(spawn, sim_utils.GroundPlaneCfg) and spawn.usd_path == stock:
            spawn.usd_path, spawn.color = str(GROUND_USD), None  # the color belongs to the stock file's material
        elif isinstance(part, TerrainImporterCfg) and part.terrain_type == "plane" and part.class_type == importer:
            part.class_type = ResolvableString(PLANE_IMPORTER)


def local_grounds(env_cfg: ManagerBasedRLEnvCfg) -> list[str]:
    """Return the places of a configuration where :func:`use_local_ground` has put LedgerLab's ground."""
    return [
        f"env.scene.{name}"
        for name, part in vars(env_cfg.scene).items()
        if (
            isinstance(spawn := getattr(part, "spawn", None), sim_utils.GroundPlaneCfg)
            and spawn.usd_path == str(GROUND_USD)
        )
        or (isinstance(part, TerrainImporterCfg) and part.class_type == PLANE_IMPORTER)
    ]
