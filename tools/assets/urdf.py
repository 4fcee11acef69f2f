"""Reads robots from URDF."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
from scipy.spatial.transform import Rotation

from ledger_lab.errors import UserError
from tools.assets.robot import Array, Axis, Body, Joint, Look, Robot, Shape

_MOVING = ("revolute", "continuous", "prismatic")


def read_urdf(path: Path, name: str, *, fixed_base: bool = False) -> Robot:
    """Read a robot: its links with their inertias, primitive collision shapes and visual meshes, and its joints.

    Collision meshes and couplings of mimic joints are left out.

    Args:
        path: Description.
        name: Name of the robot.
        fixed_base: Whether its base is bolted to the world.

    Raises:
        UserError: If the file is not a tree of links and joints of kinds that this reader supports.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise UserError(f"{path}: no readable URDF ({error})") from error
    links = {_text(link, "name", path): link for link in root.findall("link")}
    named = {element.get("name") for element in root.findall("joint")}
    for mimic in root.iterfind("joint/mimic"):
        if mimic.get("joint") not in named:
            raise UserError(f"{path}: a joint mimics {mimic.get('joint')!r}, which is no joint")
    joints: dict[str, list[Element]] = {name: [] for name in links}
    children = set()
    for element in root.findall("joint"):
        parent, child = (_text(element.find(end), "link", path) for end in ("parent", "child"))
        if unknown := {parent, child} - links.keys():
            raise UserError(f"{path}: joint {element.get('name')!r} joins {min(unknown)!r}, which is no link")
        joints[parent].append(element)
        children.add(child)
    bases = [link for link in links if link not in children]
    if len(bases) != 1:
        raise UserError(f"{path}: one link must be the base, found {', '.join(bases) or 'none'}")

    try:
        bodies = [_body(links[bases[0]], np.eye(4))]
        for body in bodies:  # the list grows during the loop
            for element in joints[body.name]:
                link = links[_text(element.find("child"), "link", path)]
                bodies.append(_body(link, _origin(element), body.name, _joint(element, path)))
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    return Robot(name, tuple(bodies), fixed_base)


def _body(link: Element, pose: Array, parent: str | None = None, joint: Joint | None = None) -> Body:
    """Return a link with its mass, solids and meshes."""
    mass, center, inertia = 0.0, np.zeros(3), np.zeros((3, 3))
    inertial = link.find("inertial")
    if inertial is not None:
        frame = _origin(inertial)
        mass = _number(inertial.find("mass"), "value")
        entries = {key: _number(inertial.find("inertia"), f"i{key}") for key in ("xx", "xy", "xz", "yy", "yz", "zz")}
        tensor = np.array([[entries["".join(sorted(row + column))] for column in "xyz"] for row in "xyz"])
        center, inertia = frame[:3, 3], frame[:3, :3] @ tensor @ frame[:3, :3].T
    return Body(
        name=link.get("name", ""),
        pose=pose,
        parent=parent,
        joint=joint,
        mass_kg=mass,
        center_m=center,
        inertia=inertia,
        shapes=tuple(shape for element in link.findall("collision") if (shape := _shape(element)) is not None),
        looks=tuple(
            Look(PurePosixPath(mesh.get("filename", "")).stem, _origin(element))
            for element in link.findall("visual")
            if (mesh := element.find("geometry/mesh")) is not None
        ),
    )


def _joint(element: Element, path: Path) -> Joint:
    """Return a joint with its axis and limits."""
    name, kind = element.get("name", ""), element.get("type", "")
    if kind == "fixed":
        return Joint(name, ())
    if kind not in _MOVING:
        raise UserError(f"{path}: joint {name!r} is {kind!r}; known are fixed, {', '.join(_MOVING)}")
    axis, limit = element.find("axis"), element.find("limit")
    direction = _vector(axis.get("xyz") if axis is not None else None, "1 0 0")
    if not direction.any():
        raise UserError(f"{path}: joint {name!r} has an axis of no direction")
    bounded = kind != "continuous"
    return Joint(
        name,
        (
            Axis(
                direction=direction / np.linalg.norm(direction),
                lower=_number(limit, "lower") if bounded else -math.inf,
                upper=_number(limit, "upper") if bounded else math.inf,
                max_effort=None if limit is None else _number(limit, "effort"),
                max_velocity=None if limit is None else _number(limit, "velocity"),
            ),
        ),
        slides=kind == "prismatic",
    )


def _shape(collision: Element) -> Shape | None:
    """Return a solid, or None for a mesh."""
    geometry, pose = collision.find("geometry"), _origin(collision)
    for solid in geometry if geometry is not None else ():
        if solid.tag == "box":
            return Shape("Cube", tuple(_vector(solid.get("size"), "")), pose)
        if solid.tag == "sphere":
            return Shape("Sphere", (_number(solid, "radius"),), pose)
        if solid.tag == "cylinder":
            return Shape("Cylinder", (_number(solid, "radius"), _number(solid, "length")), pose)
    return None


def _origin(element: Element) -> Array:
    """Return the pose in ``<origin>``, the identity if missing; shape (4, 4) [m]."""
    pose, origin = np.eye(4), element.find("origin")
    if origin is not None:
        pose[:3, :3] = Rotation.from_euler("xyz", _vector(origin.get("rpy"), "0 0 0")).as_matrix()
        pose[:3, 3] = _vector(origin.get("xyz"), "0 0 0")
    return pose


def _vector(text: str | None, default: str) -> Array:
    """Return the three numbers in a text."""
    numbers = np.array([float(number) for number in (text or default).split()])
    if numbers.shape != (3,) or not np.isfinite(numbers).all():
        raise ValueError(f"{text!r} is not three numbers")
    return numbers


def _number(element: Element | None, key: str) -> float:
    """Return a number of an element; URDF's default is zero."""
    number = float(element.get(key, "0")) if element is not None else 0.0
    if not math.isfinite(number):
        raise ValueError(f"{key} {number} is not finite")
    return number


def _text(element: Element | None, key: str, path: Path) -> str:
    """Return a required attribute."""
    text = element.get(key) if element is not None else None
    if text is None:
        raise UserError(f"{path}: an element lacks {key!r}")
    return text
