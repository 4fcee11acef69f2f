"""Finds colliding meshes that MuJoCo would simulate with another shape: it replaces each mesh by its convex hull."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ledger_lab.errors import UserError

if TYPE_CHECKING:
    from newton import Model

_TOLERANCE_M = 1.0e-3
"""Depth below the convex hull up to which a point counts as part of it [m]."""
_SMALLEST_HOLE = 0.01
"""Share of the hull's surface that a mesh may lack."""
_AT_ONCE = 4096
"""Points to look at together, which limits the memory."""


def require_convex_meshes(model: Model) -> None:
    """Refuse concave meshes that collide.

    Args:
        model: Newton's model of all worlds.

    Raises:
        UserError: If there is one.
    """
    from newton import GeoType, ShapeFlags

    collides = (model.shape_flags.numpy() & int(ShapeFlags.COLLIDE_SHAPES)) != 0
    scales = model.shape_scale.numpy().astype(np.float64)
    concave: dict[tuple[int, bytes], bool] = {}
    for shape in np.flatnonzero(collides & (model.shape_type.numpy() == int(GeoType.MESH))):
        mesh, scale = model.shape_source[shape], scales[shape]
        known = (id(mesh), scale.tobytes())
        if known not in concave:
            corners = np.asarray(mesh.vertices, dtype=np.float64)[np.asarray(mesh.indices).reshape(-1, 3)]
            concave[known] = is_concave(scale * corners)
        if concave[known]:
            raise UserError(
                f"physics=newton_mujoco would replace the concave mesh {model.shape_label[shape]} by its convex hull: "
                "choose physics=newton_mjwarp"
            )


def is_concave(corners: NDArray[np.float64]) -> bool:
    """Tell whether a mesh differs from its convex hull: it lies below its surface somewhere, or does not close it.

    Args:
        corners: Corners of each triangle [m]; shape (n, 3, 3).
    """
    from scipy.spatial import ConvexHull, QhullError  # slow to import

    try:
        hull = ConvexHull(corners.reshape(-1, 3))
    except QhullError:
        return False  # flat: it equals its hull, or Newton refuses it
    edges = np.roll(corners, 1, axis=1) - corners
    area = 0.5 * np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1).sum()
    if area < (1.0 - _SMALLEST_HOLE) * hull.area:
        return True
    middles = corners + 0.5 * edges
    points = np.concatenate([corners.reshape(-1, 3), middles.reshape(-1, 3), corners.mean(axis=1)])
    planes = hull.equations
    return any(
        bool(((part @ planes[:, :3].T + planes[:, 3]).max(axis=1) < -_TOLERANCE_M).any())
        for part in np.array_split(points, max(1, len(points) // _AT_ONCE))
    )
