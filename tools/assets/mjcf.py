"""Reads robots from MJCF."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from ledger_lab.errors import UserError, first_line
from tools.assets.robot import Array, Axis, Body, Joint, Robot, Shape


def read_mjcf(path: Path, name: str) -> Robot:
    """Read a robot of capsules and spheres on hinges, whose first body moves freely.

    A joint gets the name of its child body, because all hinges of a body become one joint.

    Args:
        path: Description.
        name: Name of the robot.

    Raises:
        UserError: If MuJoCo can't read it, or it has joints, solids or bodies of another kind.
    """
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise UserError(f"{path}: MuJoCo can't read it ({first_line(error)})") from error
    for index, number in enumerate(model.jnt_type):
        kind = mujoco.mjtJoint(int(number))
        if kind not in (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_HINGE):
            raise UserError(
                f"{path}: joint {model.joint(index).name!r} is {kind.name.removeprefix('mjJNT_').lower()!r}; known are "
                "hinges, and the free one of the base"
            )
    for geom in range(model.ngeom):
        solid = mujoco.mjtGeom(int(model.geom_type[geom]))
        if model.geom_bodyid[geom] and solid not in (mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE):
            raise UserError(
                f"{path}: a solid of body {model.body(model.geom_bodyid[geom]).name!r} is a "
                f"{solid.name.removeprefix('mjGEOM_').lower()}; known are spheres and capsules"
            )
    for index in range(2, model.nbody):
        if not model.body_jntnum[index]:
            raise UserError(f"{path}: body {model.body(index).name!r} has no joint: join it with its parent")
    return Robot(name, tuple(_body(model, index) for index in range(1, model.nbody)))


def _body(model: mujoco.MjModel, index: int) -> Body:
    """Return a body with its hinges and solids."""
    view = model.body(index)
    own_axes = _turn(model.body_iquat[index])
    hinges = [
        j
        for j in range(model.njnt)
        if model.jnt_bodyid[j] == index and model.jnt_type[j] == mujoco.mjtJoint.mjJNT_HINGE
    ]
    joint = None
    if hinges:
        # an MJCF motor's largest effort is its gear
        efforts = {int(model.actuator_trnid[a][0]): float(model.actuator_gear[a][0]) for a in range(model.nu)}
        axes = tuple(
            Axis(model.jnt_axis[j].copy(), float(model.jnt_range[j][0]), float(model.jnt_range[j][1]), efforts.get(j))
            for j in hinges
        )
        joint = Joint(view.name, axes, anchor_m=model.jnt_pos[hinges[0]].copy())
    return Body(
        name=view.name,
        pose=_pose(model.body_pos[index], model.body_quat[index]) if joint else np.eye(4),
        parent=model.body(int(view.parentid[0])).name if joint else None,
        joint=joint,
        mass_kg=float(view.mass[0]),
        center_m=view.ipos.copy(),
        inertia=own_axes @ np.diag(view.inertia) @ own_axes.T,
        shapes=tuple(_shape(model, geom) for geom in range(model.ngeom) if model.geom_bodyid[geom] == index),
    )


def _shape(model: mujoco.MjModel, geom: int) -> Shape:
    """Return a solid."""
    radius, half_length = (float(size) for size in model.geom_size[geom][:2])
    pose = _pose(model.geom_pos[geom], model.geom_quat[geom])
    if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE:
        return Shape("Sphere", (radius,), pose)
    return Shape("Capsule", (radius, 2 * half_length), pose)


def _pose(position_m: Array, quaternion: Array) -> Array:
    """Return a pose, shape (4, 4) [m]."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = _turn(quaternion), position_m
    return pose


def _turn(quaternion: Array) -> Array:
    """Return the rotation of MuJoCo's quaternion (w first), shape (3, 3)."""
    return Rotation.from_quat(quaternion, scalar_first=True).as_matrix()
