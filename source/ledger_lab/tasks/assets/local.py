"""Files of a scene: LedgerLab's ground in place of Isaac Lab's, which is on the web, and checks of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import isaaclab.sim as sim_utils
from isaaclab.terrains import TerrainImporterCfg
from isaaclab.utils.assets import check_file_path
from isaaclab.utils.string import ResolvableString
from pxr import Sdf, Tf

from ledger_lab.errors import UserError, first_line
from ledger_lab.tasks.assets import ASSET_ROOT, GROUND_USD

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

PLANE_IMPORTER = "ledger_lab.tasks.assets.plane_importer:LocalPlaneImporter"
"""Class that imports a flat terrain without a network."""
_UNUSED = ("markers", "visual_material")
"""Parts of a scene that are only visible; a physics engine does not need their files."""


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


def require_files(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Refuse files that can't be loaded, before a run costs anything.

    Args:
        env_cfg: Resolved configuration.

    Raises:
        UserError: If a file is missing, not reachable or not a USD file.
    """
    for place, file in sorted(set(_files(env_cfg.scene, "env.scene"))):
        path = Path(file)
        if "://" in file:
            if check_file_path(file) == 0:
                raise UserError(
                    f"{place}: {file} cannot be downloaded, and this machine has no copy: connect to the network, set "
                    f"ISAACSIM_ASSET_ROOT to a folder or server that has the file, or name a local file with "
                    f"{place}=FILE"
                )
        elif not path.is_file():
            raise UserError(f"{place}: file {file} does not exist: name another file with {place}=FILE")
        elif path.suffix.startswith(".usd") and path.parent != ASSET_ROOT:
            _require_usd(place, file)


def _files(node: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield the files that are loaded with the scene: where a configuration names them, and their path or URL."""
    children = node if isinstance(node, Mapping) else vars(node) if hasattr(type(node), "__dataclass_fields__") else {}
    for key, child in enumerate(node) if isinstance(node, list | tuple) else children.items():
        if key in ("usd_path", "network_file") and isinstance(child, str):
            yield f"{place}.{key}", child
        elif key not in _UNUSED:
            yield from _files(child, f"{place}.{key}")
    plane = isinstance(node, TerrainImporterCfg) and node.terrain_type == "plane"
    if plane and node.class_type != PLANE_IMPORTER:  # Isaac Lab's ground, which is on the web
        yield f"{place}.terrain_type", sim_utils.GroundPlaneCfg().usd_path


def _require_usd(place: str, file: str) -> None:
    """Refuse a file that USD can't read.

    It is not opened as a stage, because USD searches the schemas of physics engines only when the first stage is
    opened.
    """
    try:
        layer = Sdf.Layer.OpenAsAnonymous(file)
    except Tf.ErrorException as error:
        raise UserError(f"{place}: {file} cannot be read as a USD file: {first_line(error)}") from error
    if layer is None:  # for a file named .usd, which may be text or binary, USD gives no details
        raise UserError(f"{place}: {file} is damaged, or is no USD file: name another file with {place}=FILE")
