"""The robots that are built from descriptions, and the choices made here.

``descriptions/README.md`` names the source and license of each description. This module chooses which fixed bodies stay
separate because tasks refer to them. It also chooses the solids of robots whose descriptions use meshes for collision.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from ledger_lab.errors import UserError
from ledger_lab.tasks.assets import DESCRIPTIONS
from tools.assets.ant import BLUE, ORANGE
from tools.assets.looks import read_looks
from tools.assets.mjcf import read_mjcf
from tools.assets.robot import Body, Robot, Shape, merge_fixed, with_shapes
from tools.assets.robot_usd import write_robot
from tools.assets.urdf import read_urdf


def anymal_c() -> Robot:
    """ANYmal-C: a base and four legs of hip, thigh, shank and foot; solids as described."""
    robot = read_urdf(DESCRIPTIONS / "anymal_c/anymal.urdf", "anymal_c")
    return merge_fixed(robot, lambda body: body.endswith("_FOOT"))


def go2() -> Robot:
    """Unitree Go2: a base and four legs of hip, thigh, calf and foot; solids fitted to the described meshes."""
    robot = read_urdf(DESCRIPTIONS / "go2/go2.urdf", "go2")
    return with_shapes(merge_fixed(robot, lambda body: body.endswith("_foot")), _go2_solids)


def panda() -> Robot:
    """Franka Emika Panda with its gripper, bolted down; solids fitted to the described meshes."""
    robot = read_urdf(DESCRIPTIONS / "panda/panda.urdf", "panda", fixed_base=True)
    return with_shapes(merge_fixed(robot, lambda body: body == "panda_hand"), _panda_solids)


def humanoid() -> Robot:
    """MuJoCo's humanoid with Isaac Lab's names and joint limits; solids as described."""
    return read_mjcf(DESCRIPTIONS / "humanoid/humanoid.xml", "humanoid")


ROBOTS: dict[str, Callable[[], Robot]] = {"anymal_c": anymal_c, "go2": go2, "panda": panda, "humanoid": humanoid}
"""Every robot by the name of its file."""


def write(name: str, path: Path) -> None:
    """Write a robot as USD.

    Args:
        name: Key of :data:`ROBOTS`.
        path: File to write; an existing file is replaced.

    Raises:
        UserError: If a source file is damaged.
    """
    robot, looks = ROBOTS[name](), DESCRIPTIONS / name / "looks.glb"
    meshes = read_looks(looks) if looks.exists() else {}
    if missing := {look.mesh for body in robot.bodies for look in body.looks} - meshes.keys():
        raise UserError(f"{looks}: has no mesh {min(missing)}: write it again with tools.assets.looks")
    trunk = ("torso", "lower_waist", "pelvis")
    write_robot(path, robot, meshes, lambda body: BLUE if body in trunk else ORANGE)


PANDA_CAPSULES_M: dict[str, list[tuple[tuple[float, ...], tuple[float, ...], float]]] = {
    "panda_link1": [((0, 0, -0.14), (0, 0, 0), 0.055), ((0, -0.075, 0), (0, 0, 0), 0.055)],
    "panda_link2": [((0, 0, 0), (0, -0.14, 0), 0.055), ((0, 0, 0), (0, 0, 0.075), 0.055)],
    "panda_link3": [((0, 0, -0.066), (0, 0, 0), 0.055), ((0.0825, 0, 0), (0.0825, 0.056, 0), 0.055)],
    "panda_link4": [((0, 0, 0), (0, 0, 0.056), 0.055), ((-0.0825, 0, 0), (-0.0825, 0.069, 0), 0.055)],
    "panda_link5": [((0, 0, -0.205), (0, 0, -0.2), 0.057), ((0, 0.075, -0.15), (0, 0.055, -0.03), 0.055)],
    "panda_link6": [((0, 0, 0), (0, 0.02, 0), 0.05), ((0.08, 0, 0), (0.088, 0.03, 0), 0.05)],
    "panda_link7": [((0.01, 0.01, 0.07), (0.036, 0.036, 0.08), 0.045)],
    "panda_hand": [((0, -0.07, 0.025), (0, 0.07, 0.025), 0.035)],
}
"""Capsules fitted to the parts of the described meshes: both ends, and the radius."""


def _panda_solids(body: Body) -> list[Shape]:
    """Return capsules for the arm, and boxes for its foot and its fingers, which grasp with flat faces."""
    if body.name == "panda_link0":
        return [_at("Cube", (0.22, 0.18, 0.13), (-0.04, 0.0, 0.072))]
    if not body.name.endswith("finger"):
        return [_capsule(*capsule) for capsule in PANDA_CAPSULES_M[body.name]]
    side = 1.0 if body.name == "panda_leftfinger" else -1.0
    return [
        _at("Cube", (0.0175, 0.0152, 0.0185), (0.0, 0.0076 * side, 0.04465)),
        _at("Cube", (0.0205, 0.0152, 0.0354), (0.0, 0.0186 * side, 0.0177)),
    ]


def _go2_solids(body: Body) -> list[Shape]:
    """Return solids fitted to the described convex meshes."""
    side = 1.0 if body.name.startswith(("FL", "RL")) else -1.0
    if body.name == "base":
        return [
            _at("Cube", (0.376, 0.094, 0.114), (0.0, 0.0, 0.0)),
            _at("Cube", (0.11, 0.12, 0.16), (0.285, 0.0, -0.01)),
        ]
    if body.name.endswith("_hip"):
        return [_at("Cylinder", (0.046, 0.04), (0.0, 0.08 * side, 0.0), (90.0, 0.0, 0.0))]
    if body.name.endswith("_thigh"):
        return [_at("Cube", (0.034, 0.0245, 0.213), (0.0, 0.0, -0.1065))]
    if body.name.endswith("_calf"):
        return [_at("Capsule", (0.014, 0.15), (0.011, 0.0, -0.1), (0.0, -4.0, 0.0))]
    return [_at("Sphere", (0.022,), (-0.002, 0.0, 0.0))]


def _capsule(start_m: tuple[float, ...], end_m: tuple[float, ...], radius_m: float) -> Shape:
    """Return a capsule between the centers of its two half spheres [m]."""
    start, end = np.array(start_m), np.array(end_m)
    length = float(np.linalg.norm(end - start))
    pose = np.eye(4)
    # the smallest rotation that turns the capsule's z axis from one end to the other
    pose[:3, :3] = Rotation.align_vectors([(end - start) / length], [[0.0, 0.0, 1.0]])[0].as_matrix()
    pose[:3, 3] = (start + end) / 2
    return Shape("Capsule", (radius_m, length), pose)


def _at(
    kind: Literal["Cube", "Sphere", "Capsule", "Cylinder"],
    size_m: tuple[float, ...],
    position_m: tuple[float, float, float],
    rpy_deg: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Shape:
    """Return a solid at a position [m], turned by roll, pitch and yaw [deg]."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = Rotation.from_euler("xyz", rpy_deg, degrees=True).as_matrix(), position_m
    return Shape(kind, size_m, pose)
