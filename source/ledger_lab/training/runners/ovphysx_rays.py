"""Makes OvPhysX ray casters follow each robot's own body.

Isaac Lab's ray casters take bodies and moving targets in the order in which OvPhysX lists them, which is by name.
``env_10`` then comes before ``env_2``, so with more than ten robots a sensor sees the surroundings of another robot.
Isaac Lab's robot views and contact sensors correct the order; this module does it for ray casters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ledger_lab.training.runners.recorded_calls import replaced


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
        if sensor._ovphysx_body_view is not None:  # None for a sensor that does not move
            sensor._ovphysx_body_view = in_order(sensor._ovphysx_body_view)

    def target_in_order(sensor: Any, paths: str | list[str]) -> Any:  # noqa: ANN401
        return in_order(target(sensor, paths))

    methods = {"_initialize_pose_tracking": begin_in_order, "_create_tracked_target_view": target_in_order}
    with replaced(RayCasters, **methods):
        yield
