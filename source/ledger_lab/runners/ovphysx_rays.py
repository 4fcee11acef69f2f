"""Ray casters of OvPhysX that follow each robot's own body.

Isaac Lab's follow bodies, and what they see of moving targets, as OvPhysX lists them, by name: ``env_10`` comes before
``env_2``, so that with more than ten robots one sees what is around another. Its views of robots and its contact
sensors bring that into order; so do these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ordered_rays() -> Iterator[None]:
    """Let ray casters follow bodies in the order of the environments."""
    from isaaclab_ov import tensor_types
    from isaaclab_ov._clone import ordered_clone_paths
    from isaaclab_ov.physics import OvPhysxManager
    from isaaclab_ov.sensors.ray_caster.ray_caster import _OvPhysxRayCasterMixin as RayCasters

    begin, target = RayCasters._initialize_pose_tracking, RayCasters._create_tracked_target_view

    def in_order(poses: Any) -> Any:  # noqa: ANN401 - a binding of OvPhysX
        paths = list(poses.prim_paths)
        ordered = ordered_clone_paths(paths, [])
        if ordered == paths:
            return poses
        poses.destroy()
        physx = OvPhysxManager.get_physx_instance()
        return physx.create_tensor_binding(prim_paths=ordered, tensor_type=tensor_types.RIGID_BODY_POSE)

    def begin_in_order(sensor: Any) -> None:  # noqa: ANN401 - any of Isaac Lab's ray casters
        begin(sensor)
        if sensor._ovphysx_body_view is not None:  # else it stands still
            sensor._ovphysx_body_view = in_order(sensor._ovphysx_body_view)

    def target_in_order(sensor: Any, paths: str | list[str]) -> Any:  # noqa: ANN401
        return in_order(target(sensor, paths))

    RayCasters._initialize_pose_tracking, RayCasters._create_tracked_target_view = begin_in_order, target_in_order
    try:
        yield
    finally:
        RayCasters._initialize_pose_tracking, RayCasters._create_tracked_target_view = begin, target
