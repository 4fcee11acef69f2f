"""Checks of an environment's assets before a run costs anything: they can be loaded, and are undamaged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import isaaclab.sim as sim_utils
from isaaclab.assets import ArticulationCfg
from isaaclab.managers import SceneEntityCfg
from isaaclab.terrains import TerrainImporterCfg
from isaaclab.utils.assets import check_file_path
from pxr import Sdf, Tf

from ledger_lab.errors import UserError, first_line, nearest
from ledger_lab.tasks.assets import ASSET_ROOT
from ledger_lab.tasks.assets.ground_plane import PLANE_IMPORTER
from ledger_lab.tasks.assets.hashes import fault

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnvCfg

_MANAGERS = ("actions", "observations", "rewards", "terminations", "events", "commands", "curriculum")
_UNUSED = ("markers", "visual_material")
"""Parts of a scene that are only visible; a physics engine does not need their files."""


def require_assets(env_cfg: ManagerBasedRLEnvCfg) -> None:
    """Refuse assets that can't be loaded, and robots that lack a joint that the task names.

    Args:
        env_cfg: Resolved configuration.

    Raises:
        UserError: If a file is missing, not reachable, damaged, or not the robot of the task.
    """
    for place, file in sorted(set(_files(env_cfg.scene, "env.scene"))):
        _require_file(place, file)
    for name, asset in vars(env_cfg.scene).items():
        spawn = getattr(asset, "spawn", None)
        if isinstance(asset, ArticulationCfg) and isinstance(spawn, sim_utils.UsdFileCfg) and _is_local(spawn.usd_path):
            _require_joints(env_cfg, name, asset)


def _require_file(place: str, file: str) -> None:
    """Refuse a file that can't be loaded.

    Args:
        place: Place in the configuration that names it.
        file: Its path or URL.
    """
    if not _is_local(file):
        if check_file_path(file) == 0:
            raise UserError(
                f"{place}: {file} cannot be downloaded, and this machine has no copy: connect to the network, set "
                f"ISAACSIM_ASSET_ROOT to a folder or server that has the file, or name a local file with {place}=FILE"
            )
        return
    path = Path(file)
    if path.parent == ASSET_ROOT:
        if wrong := fault(path):
            raise UserError(
                f"{place}: {path} is {wrong}: install LedgerLab again, or, in a clone, run ./isaaclab.sh -p -m "
                "tools.assets.build"
            )
    elif not path.is_file():
        raise UserError(f"{place}: file {file} does not exist: name another file with {place}=FILE")
    elif path.suffix.startswith(".usd"):
        _layer(place, file)


def _require_joints(env_cfg: ManagerBasedRLEnvCfg, name: str, asset: ArticulationCfg) -> None:
    """Refuse a robot that lacks a joint that its motors, its initial state or a term of the task names.

    Args:
        env_cfg: Resolved configuration.
        name: Name of the robot in the scene.
        asset: The robot.
    """
    place, file = f"env.scene.{name}", asset.spawn.usd_path
    layer = _layer(f"{place}.spawn.usd_path", file)
    if layer.GetCompositionAssetDependencies():
        return  # its joints may be in other files: Isaac Lab checks them when it builds the scene
    known = _joints(layer)
    spoken_of = {
        f"{place}.init_state.joint_pos": asset.init_state.joint_pos,
        f"{place}.init_state.joint_vel": asset.init_state.joint_vel,
        **{f"{place}.actuators.{key}.joint_names_expr": m.joint_names_expr for key, m in asset.actuators.items()},
        **{
            where: joints
            for manager in _MANAGERS
            for where, robot, joints in _terms(getattr(env_cfg, manager, None), f"env.{manager}")
            if robot == name
        },
    }
    for where, patterns in spoken_of.items():
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            if not any(re.fullmatch(pattern, joint) for joint in known):
                raise UserError(
                    f"{where}: no joint of {Path(file).name} is called {pattern!r}: {nearest(pattern, known)}"
                )


def _terms(node: Any, place: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the terms of managers that name joints: place, asset and patterns."""
    below = _children(node)
    asset, joints = below.get("name" if isinstance(node, SceneEntityCfg) else "asset_name"), below.get("joint_names")
    if isinstance(asset, str) and isinstance(joints, str | list | tuple):
        yield f"{place}.joint_names", asset, joints
    for key, child in below.items():
        yield from _terms(child, f"{place}.{key}")


def _files(node: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield the files that are loaded with the scene: where a configuration names them, and their path or URL."""
    for key, child in _children(node).items():
        if key in ("usd_path", "network_file") and isinstance(child, str):
            yield f"{place}.{key}", child
        elif key not in _UNUSED:
            yield from _files(child, f"{place}.{key}")
    plane = isinstance(node, TerrainImporterCfg) and node.terrain_type == "plane"
    if plane and node.class_type != PLANE_IMPORTER:  # Isaac Lab's ground, which is on the web
        yield f"{place}.terrain_type", sim_utils.GroundPlaneCfg().usd_path


def _children(node: Any) -> Mapping[str, Any]:
    """Return the children of a node of a configuration, by name."""
    if isinstance(node, Mapping):
        return {str(key): child for key, child in node.items()}
    if isinstance(node, list | tuple):
        return {str(index): child for index, child in enumerate(node)}
    return vars(node) if hasattr(type(node), "__dataclass_fields__") else {}


def _layer(place: str, file: str) -> Sdf.Layer:
    """Read a file as USD, or refuse it.

    It is not opened as a stage, because USD searches the schemas of physics engines only when the first stage is
        opened.
    """
    refusal = f"{place}: {file} cannot be read as a USD file"
    try:
        layer = Sdf.Layer.OpenAsAnonymous(file)
    except Tf.ErrorException as error:
        raise UserError(f"{refusal}: {first_line(error)}") from error
    if layer is None:  # for a file named .usd, which may be text or binary, USD gives no details
        raise UserError(
            f"{refusal}: it is damaged or has another format: restore the file, or name another with {place}=FILE"
        )
    return layer


def _joints(layer: Sdf.Layer) -> set[str]:
    """Return the joint names of a robot in the engines: a joint with several axes gives numbered names."""
    names: set[str] = set()

    def visit(path: Sdf.Path) -> None:
        prim = layer.GetPrimAtPath(path) if path.IsPrimPath() else None
        if prim is None or prim.typeName == "PhysicsFixedJoint" or not re.fullmatch(r"Physics\w*Joint", prim.typeName):
            return
        names.add(prim.name)
        if prim.typeName not in ("PhysicsRevoluteJoint", "PhysicsPrismaticJoint"):
            names.update(f"{prim.name}:{axis}" for axis in range(3))

    layer.Traverse("/", visit)
    return names


def _is_local(file: str) -> bool:
    """Tell, by its name, whether a file is on this machine."""
    return "://" not in file
