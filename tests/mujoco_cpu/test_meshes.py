"""Meshes that MuJoCo would replace by their convex hulls are refused, if the task's physics keeps their shapes."""

from __future__ import annotations

import numpy as np
import pytest

from ledger_lab.errors import UserError
from ledger_lab.mujoco_cpu.meshes import is_concave, require_convex_meshes

PROFILE = [(0.0, 1.0), (1.0, 0.0), (2.0, 1.0)]
"""x and z of a valley."""


def prism(profile: list[tuple[float, float]], *, closed: bool) -> np.ndarray:
    """Return the triangles of a profile in x and z that is one metre wide; shape (n, 3, 3)."""
    near, far = (np.array([[x, y, z] for x, z in profile]) for y in (0.0, 1.0))
    sides = range(len(profile) if closed else len(profile) - 1)
    after = [(side, (side + 1) % len(profile)) for side in sides]
    walls = [[near[a], near[b], far[a]] for a, b in after] + [[far[a], near[b], far[b]] for a, b in after]
    caps = [[part[0], part[n], part[n + 1]] for part in (near, far) for n in range(1, len(profile) - 1) if closed]
    return np.array(walls + caps)


SQUARE = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
BOX = prism(SQUARE, closed=True)


@pytest.mark.parametrize(
    ("corners", "concave"),
    [
        (BOX, False),
        (prism([(0.0, 0.0), (0.5, -1e-4), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)], closed=True), False),
        (prism(PROFILE, closed=False), True),
        (prism([*PROFILE, (2.0, -1.0), (0.0, -1.0)], closed=True), True),
        (prism([(0, 0), (3, 0), (3, 1), (2, 1), (2, 2), (1, 2), (1, 3), (0, 3)], closed=True), True),
        (prism([(n, 0.1 * abs(n // 10 - 250)) for n in range(5000)], closed=False), True),
        (BOX[:2] * [1.0, 0.0, 1.0], False),
    ],
    ids=["box", "a tenth of a millimetre", "open valley", "valley", "stairs", "terrain", "flat"],
)
def test_a_mesh_is_concave_if_it_differs_from_its_hull(corners: np.ndarray, concave: bool) -> None:
    assert is_concave(corners.astype(float)) is concave


@pytest.mark.parametrize(
    ("collides", "scale", "refused"), [(True, 1.0, True), (True, 1e-4, False), (False, 1.0, False)]
)
def test_a_concave_mesh_is_refused_if_it_collides(collides: bool, scale: float, refused: bool) -> None:
    import newton

    builder = newton.ModelBuilder()
    for name, corners in (("box", BOX), ("valley", prism([*PROFILE, (2.0, -1.0), (0.0, -1.0)], closed=True))):
        points = corners.reshape(-1, 3)
        mesh = newton.Mesh(points, np.arange(len(points)), compute_inertia=False)
        how = newton.ModelBuilder.ShapeConfig(has_shape_collision=collides)
        builder.add_shape_mesh(body=-1, mesh=mesh, scale=(scale, scale, scale), cfg=how, label=f"ground/{name}")
    model = builder.finalize(device="cpu")
    if not refused:
        require_convex_meshes(model)
        return
    with pytest.raises(UserError, match="the concave mesh ground/valley by its convex hull: choose physics=newton_mjw"):
        require_convex_meshes(model)


@pytest.mark.parametrize("own_contacts", [True, False])
def test_concave_meshes_are_refused_where_newton_would_find_their_contacts(own_contacts: bool) -> None:
    from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg

    from ledger_lab.mujoco_cpu.choose import native_physics

    chosen = native_physics(NewtonCfg(solver_cfg=MJWarpSolverCfg(use_mujoco_contacts=own_contacts)))
    assert chosen.solver_cfg.refuse_concave_meshes is not own_contacts
