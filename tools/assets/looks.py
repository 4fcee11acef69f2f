"""Simplifies the meshes of robot descriptions to the detail that a picture needs.

The descriptions of this folder come from the ``example-robot-data`` package, whose meshes are far too large to ship::

    pip download --no-deps example-robot-data==6.0.0 && python -m zipfile -e example_robot_data-*.whl data
    ./isaaclab.sh -p -m tools.assets.looks data/cmeel.prefix/share/example-robot-data/robots

copies each description unchanged and writes ``looks.glb`` beside it; :mod:`tools.assets.build` makes USD of both.
"""

from __future__ import annotations

import argparse
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import trimesh
from scipy.spatial import cKDTree

from ledger_lab.errors import UserError
from ledger_lab.tasks.assets import DESCRIPTIONS
from tools.assets.robot_usd import Mesh

SOURCES = {
    "anymal_c/anymal.urdf": "anymal_c_simple_description/urdf/anymal.urdf",
    "go2/go2.urdf": "go2_description/urdf/go2.urdf",
    "panda/panda.urdf": "panda_description/urdf/panda.urdf",
}
"""Path of each description in this folder, and in the package."""


def read_looks(path: Path) -> dict[str, list[Mesh]]:
    """Return the parts of each mesh of a ``looks.glb``.

    Raises:
        UserError: If the file is damaged.
    """
    looks: dict[str, list[Mesh]] = {}
    try:
        scene = trimesh.load_scene(path)
    except (ValueError, LookupError, struct.error) as error:
        raise UserError(
            f"{path}: no readable meshes ({type(error).__name__}): write it again with tools.assets.looks"
        ) from error
    for name in sorted(scene.geometry):
        mesh = scene.geometry[name]
        red, green, blue, _ = ((channel / 255) ** 2.2 for channel in mesh.visual.material.main_color)  # USD is linear
        part = Mesh(np.asarray(mesh.vertices), np.asarray(mesh.faces), (red, green, blue))
        looks.setdefault(name.rsplit(".", 1)[0], []).append(part)
    return looks


def simplify(path: Path, max_faces: int) -> list[trimesh.Trimesh]:
    """Return a mesh in parts of one color each, with at most about the given number of faces in all."""
    whole = trimesh.util.concatenate([_painted(part) for part in trimesh.load_scene(path).dump()])
    simple = trimesh.Trimesh(whole.vertices, whole.faces)
    simple.merge_vertices(digits_vertex=5)
    if len(simple.faces) > max_faces:
        simple = simple.simplify_quadric_decimation(face_count=max_faces)
    # color after simplifying: a mesh cut along its colors first would come apart
    _, nearest = cKDTree(whole.triangles_center).query(simple.triangles_center)
    tones, members = np.unique(
        _palette(whole.visual.face_colors[nearest, :3], simple.area_faces), axis=0, return_inverse=True
    )
    parts = []
    for number, tone in enumerate(tones):
        part = simple.submesh([np.flatnonzero(members.flatten() == number)], append=True)
        material = trimesh.visual.material.PBRMaterial(baseColorFactor=[*map(int, tone), 255])
        part.visual = trimesh.visual.TextureVisuals(material=material)
        parts.append(part)
    return parts


def _painted(part: trimesh.Trimesh) -> trimesh.Trimesh:
    """Return a mesh with a color for each face, taken from its material or texture."""
    material = part.visual.material
    image = getattr(material, "baseColorTexture", None)
    if image is None:
        faces = np.tile(material.main_color, (len(part.faces), 1))
    else:
        faces = trimesh.visual.color.uv_to_color(part.visual.uv[part.faces].mean(axis=1), image)
    return trimesh.Trimesh(part.vertices, part.faces, face_colors=faces, process=False)


def _palette(colors: np.ndarray, areas: np.ndarray, tones: int = 3, apart: float = 80.0) -> np.ndarray:
    """Return each face's color, reduced to a few distinct colors, shape (faces, 3)."""
    colors = colors.astype(float)
    centers = [np.median(colors, axis=0)]
    while len(centers) < tones:
        distance = np.linalg.norm(colors[:, None] - np.array(centers), axis=2).min(axis=1)
        if distance.max() < apart:
            break
        centers.append(colors[distance.argmax()])
    nearest = np.linalg.norm(colors[:, None] - np.array(centers), axis=2).argmin(axis=1)
    for number in range(len(centers)):
        members = nearest == number
        colors[members] = np.average(colors[members], axis=0, weights=areas[members] + 1e-12)
    return colors.round()


def main(argv: Sequence[str] | None = None) -> None:
    """Copy the descriptions and simplify their meshes."""
    parser = argparse.ArgumentParser(description="Take robot descriptions over from example-robot-data.")
    parser.add_argument("robots", type=Path, help="Its folder 'robots'.")
    parser.add_argument("--faces", type=int, default=700, help="Triangles of a mesh at most (default: 700).")
    args = parser.parse_args(argv)
    for here, there in SOURCES.items():
        source, target = args.robots / there, DESCRIPTIONS / here
        if not source.is_file():
            parser.error(f"{source}: no such description; give the folder 'robots' of example-robot-data")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        scene = trimesh.Scene()
        meshes = ElementTree.parse(target).iterfind(".//visual//mesh")
        for name in sorted({mesh.get("filename", "") for mesh in meshes}):
            path = args.robots.parent.parent / name.removeprefix("package://")
            for number, part in enumerate(simplify(path, args.faces)):
                scene.add_geometry(part, geom_name=f"{path.stem}.{number}", node_name=f"{path.stem}.{number}")
        (target.parent / "looks.glb").write_bytes(scene.export(file_type="glb"))
        print(f"{target.parent}: {sum(len(mesh.faces) for mesh in scene.geometry.values())} triangles")


if __name__ == "__main__":
    main()
