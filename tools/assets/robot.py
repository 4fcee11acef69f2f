"""A robot, independent of the description's format: bodies and joints, with solids, meshes and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

type Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shape:
    """A solid that collides, centered at the origin of its own frame."""

    kind: Literal["Cube", "Sphere", "Capsule", "Cylinder"]
    """Its type in USD."""
    size_m: tuple[float, ...]
    """Side lengths of a cube; radius of a sphere; radius and length along z of a cylinder or capsule, whose length
    excludes the half spheres [m]."""
    pose: Array
    """In the body's frame, shape (4, 4) [m]."""


@dataclass(frozen=True, eq=False)
class Look:
    """A mesh that is visible and does not collide."""

    mesh: str
    """Its name."""
    pose: Array
    """In the body's frame, shape (4, 4) [m]."""


@dataclass(frozen=True, eq=False)
class Axis:
    """One degree of freedom of a joint."""

    direction: Array
    """Unit vector in the body's frame, shape (3,)."""
    lower: float
    """[rad] or [m]."""
    upper: float
    """[rad] or [m]."""
    max_effort: float | None = None
    """[N·m] or [N]; None where the description states none."""
    max_velocity: float | None = None
    """[rad/s] or [m/s]; None where the description states none."""


@dataclass(frozen=True, eq=False)
class Joint:
    """The joint between a body and its parent."""

    name: str
    axes: tuple[Axis, ...]
    """None for a fixed joint; up to three perpendicular axes for a ball-like joint."""
    slides: bool = False
    """Whether it moves along its axis rather than about it."""
    anchor_m: Array = field(default_factory=lambda: np.zeros(3))
    """Its place in the body's frame, shape (3,) [m]."""


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid body, in the frame of its description."""

    name: str
    pose: Array
    """In the parent's frame where all joints are zero, shape (4, 4) [m]."""
    parent: str | None = None
    joint: Joint | None = None
    """None for the base."""
    mass_kg: float = 0.0
    center_m: Array = field(default_factory=lambda: np.zeros(3))
    """Center of mass, shape (3,) [m]."""
    inertia: Array = field(default_factory=lambda: np.zeros((3, 3)))
    """About the center of mass, along the body's axes, shape (3, 3) [kg·m²]."""
    shapes: tuple[Shape, ...] = ()
    looks: tuple[Look, ...] = ()


@dataclass(frozen=True, eq=False)
class Robot:
    """A robot as a tree of bodies."""

    name: str
    """Name of its root prim."""
    bodies: tuple[Body, ...]
    """Parents before their children."""
    fixed_base: bool = False
    """Whether the first body is bolted to the world."""


def merge_fixed(robot: Robot, keep: Callable[[str], bool]) -> Robot:
    """Merge bodies on fixed joints into their parents.

    Args:
        robot: Robot as described, in which even a screw may be a body.
        keep: Returns by name whether a body stays separate because tasks refer to it.

    Returns:
        The robot with only the bodies that move or are kept.
    """
    merged: dict[str, Body] = {}
    home: dict[str, tuple[str, Array]] = {}
    for body in robot.bodies:
        where, pose = (body.name, np.eye(4))
        if body.parent is not None:
            where, pose = home[body.parent]
            pose = pose @ body.pose
            if (body.joint is not None and body.joint.axes) or keep(body.name):
                merged[body.name] = replace(body, parent=where, pose=pose)
                home[body.name] = (body.name, np.eye(4))
                continue
            merged[where] = weld(merged[where], body, pose)
        else:
            merged[body.name] = body
        home[body.name] = (where, pose)
    return replace(robot, bodies=tuple(merged.values()))


def weld(body: Body, other: Body, pose: Array) -> Body:
    """Add the mass, the solids and the meshes of another body to a body.

    Args:
        body: The body that stays.
        other: The body that becomes part of it.
        pose: Pose of the other body in the frame of the body that stays, shape (4, 4) [m].
    """
    turn, shift = pose[:3, :3], pose[:3, 3]
    parts = [
        (body.mass_kg, body.center_m, body.inertia),
        (other.mass_kg, turn @ other.center_m + shift, turn @ other.inertia @ turn.T),
    ]
    mass = sum(part[0] for part in parts)
    center = sum((m * c for m, c, _ in parts), np.zeros(3)) / mass if mass else np.zeros(3)
    return replace(
        body,
        mass_kg=mass,
        center_m=center,
        inertia=sum((i + m * _point_inertia(c - center) for m, c, i in parts), np.zeros((3, 3))),
        shapes=(*body.shapes, *(replace(shape, pose=pose @ shape.pose) for shape in other.shapes)),
        looks=(*body.looks, *(replace(look, pose=pose @ look.pose) for look in other.looks)),
    )


def with_shapes(robot: Robot, shapes: Callable[[Body], Iterable[Shape] | None]) -> Robot:
    """Replace the solids of bodies.

    Args:
        robot: Robot as described.
        shapes: Solids of a body, or None to keep the described ones.
    """
    bodies = []
    for body in robot.bodies:
        other = shapes(body)
        bodies.append(body if other is None else replace(body, shapes=tuple(other)))
    return replace(robot, bodies=tuple(bodies))


def _point_inertia(offset_m: Array) -> Array:
    """Return the inertia of a unit mass at an offset, shape (3, 3)."""
    return float(offset_m @ offset_m) * np.eye(3) - np.outer(offset_m, offset_m)
