"""Patches of a generated terrain, and the patch on which each slot stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

PATCH_COLUMNS = ("terrain_levels", "terrain_types", "env_origins")
"""Attributes of a terrain that have a row per slot."""


def patched_terrain(base: ManagerBasedRLEnv) -> Any:  # noqa: ANN401 - a terrain importer, or a task's replacement of it
    """Return the terrain of an environment; ``None`` unless it has patches of different types and levels.

    Args:
        base: The environment, unwrapped.
    """
    terrain = base.scene.terrain
    return terrain if getattr(terrain, "terrain_origins", None) is not None else None


def spread_over_types(base: ManagerBasedRLEnv, count: int) -> None:
    """Spread the first slots evenly over all types of a terrain, as if there were no other slots.

    Isaac Lab spreads all slots, type after type, so the first slots alone would miss the last types.

    Args:
        base: The environment, unwrapped.
        count: Number of slots to spread.
    """
    if count == 0 or (terrain := patched_terrain(base)) is None:
        return
    slots, columns = torch.arange(count, device=base.device), terrain.terrain_origins.shape[1]
    types = slots * columns // count
    terrain.terrain_types[slots] = types
    terrain.env_origins[slots] = terrain.terrain_origins[terrain.terrain_levels[slots], types]


def place_on_patches(base: ManagerBasedRLEnv, ids: torch.Tensor) -> None:
    """Draw a patch for each of some slots, from all levels and types of a terrain.

    Args:
        base: The environment, unwrapped.
        ids: Environment ids; shape (n,).
    """
    if (terrain := patched_terrain(base)) is None:
        return
    rows, columns = terrain.terrain_origins.shape[:2]
    levels = torch.randint(0, rows, (len(ids),), device=base.device)
    types = torch.randint(0, columns, (len(ids),), device=base.device)
    terrain.terrain_levels[ids], terrain.terrain_types[ids] = levels, types
    terrain.env_origins[ids] = terrain.terrain_origins[levels, types]
