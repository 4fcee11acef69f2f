"""Forward and inverse kinematics of an arm, read from its USD."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from isaaclab.sim.utils import find_first_matching_prim
from isaaclab.utils.math import matrix_from_quat, quat_from_angle_axis
from pxr import Gf, Usd, UsdPhysics

_DAMPING = 0.03
"""Damping that keeps the steps of the inverse kinematics finite when the arm is stretched."""
_STEPS = 12
"""Steps that reach a millimeter, from a few decimeters away."""


@dataclass(frozen=True)
class _Link:
    """A joint and its child body: its pose on the parent, its axis, and the pose of the child relative to it."""

    name: str
    position: torch.Tensor
    rotation: torch.Tensor
    axis: torch.Tensor | None
    """None for a fixed joint."""
    back_position: torch.Tensor
    back_rotation: torch.Tensor


class Arm:
    """A chain of revolute and fixed joints from an articulation's base to a body, and a point in front of it.

    Poses are in the frame of the base: rotations of shape (n, 3, 3), positions of shape (n, 3) [m], joint positions of
    shape (n, joints) [rad].
    """

    def __init__(self, prim_path: str, body: str, ahead_m: float, device: str) -> None:
        """Read the chain.

        Args:
            prim_path: Regular expression of the robot's prims, as in its configuration.
            body: The last body.
            ahead_m: Distance of the point along the body's z axis [m].
            device: Device of the computation.

        Raises:
            ValueError: If the body has no joint, or one that is neither revolute nor fixed.
        """
        into = {}
        for prim in Usd.PrimRange(find_first_matching_prim(prim_path)):
            joint = UsdPhysics.Joint(prim)
            if joint and joint.GetBody0Rel().GetTargets():
                into[joint.GetBody1Rel().GetTargets()[0].name] = joint
        links: list[_Link] = []
        while body in into:
            links.insert(0, _link(into[body], device))
            body = into[body].GetBody0Rel().GetTargets()[0].name
        if not links:
            raise ValueError(f"{body} of {prim_path} hangs on no joint")
        self._links, self._ahead_m = links, ahead_m
        self.joints = [link.name for link in links if link.axis is not None]
        """Names of the revolute joints, from the base."""

    def fingertips(self, joints: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the position of the point and the rotation of the body."""
        position, rotation, _ = self._forward(joints)
        return position, rotation

    def reach(self, joints: torch.Tensor, position: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
        """Return joint positions near given positions that move the point to a pose, by damped least squares.

        Args:
            joints: Initial joint positions.
            position: Position of the point.
            rotation: Rotation of the body.
        """
        for _ in range(_STEPS):
            now, turned, jacobian = self._forward(joints)
            turn = 0.5 * torch.linalg.cross(turned, rotation, dim=1).sum(dim=2)
            error = torch.cat([position - now, turn], dim=1).unsqueeze(2)
            damped = jacobian @ jacobian.mT + _DAMPING**2 * torch.eye(6, device=joints.device)
            solved, _ = torch.linalg.solve_ex(damped, error)  # solve() would look for errors on the host
            joints = joints + (jacobian.mT @ solved).squeeze(2)
        return joints

    def _forward(self, joints: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return position, rotation, and the Jacobian of shape (n, 6, joints): meters, then radians, per radian."""
        count, device = len(joints), joints.device
        rotation = torch.eye(3, device=device).expand(count, 3, 3)
        position = torch.zeros(count, 3, device=device)
        axes: list[torch.Tensor] = []
        centers: list[torch.Tensor] = []
        for link in self._links:
            position, rotation = position + rotation @ link.position, rotation @ link.rotation
            if link.axis is not None:
                angle = joints[:, len(axes)]
                axes.append(rotation @ link.axis)
                centers.append(position)
                rotation = rotation @ matrix_from_quat(quat_from_angle_axis(angle, link.axis.expand(count, 3)))
            position, rotation = position + rotation @ link.back_position, rotation @ link.back_rotation
        position = position + self._ahead_m * rotation[..., 2]
        turning = torch.stack(axes, dim=2)
        moving = torch.linalg.cross(turning, position.unsqueeze(2) - torch.stack(centers, dim=2), dim=1)
        return position, rotation, torch.cat([moving, turning], dim=1)


def _link(joint: UsdPhysics.Joint, device: str) -> _Link:
    """Read a joint."""
    prim = joint.GetPrim()
    axis = None
    if turning := UsdPhysics.RevoluteJoint(prim):
        axis = torch.eye(3, device=device)["XYZ".index(turning.GetAxisAttr().Get())]
    elif not UsdPhysics.FixedJoint(prim):
        raise ValueError(f"{prim.GetPath()} is neither a revolute nor a fixed joint")
    back = _matrix(joint.GetLocalRot1Attr().Get(), device).mT
    return _Link(
        name=prim.GetName(),
        position=torch.tensor(joint.GetLocalPos0Attr().Get(), device=device),
        rotation=_matrix(joint.GetLocalRot0Attr().Get(), device),
        axis=axis,
        back_position=-back @ torch.tensor(joint.GetLocalPos1Attr().Get(), device=device),
        back_rotation=back,
    )


def _matrix(quaternion: Gf.Quatf, device: str) -> torch.Tensor:
    """Return a rotation as a matrix of shape (3, 3)."""
    return matrix_from_quat(torch.tensor([*quaternion.GetImaginary(), quaternion.GetReal()], device=device))
