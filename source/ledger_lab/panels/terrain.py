"""Patches of a generated terrain, and the patch on which each slot stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ledger_lab.errors import UserError
from ledger_lab.panels.ground import has_held_out_ground

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

PATCH_COLUMNS = ("terrain_levels", "terrain_types", "env_origins")
"""Attributes of a terrain that have a row per slot."""


@dataclass(frozen=True)
class HeldOutGround:
    """Patches that no training uses, of the same kinds and levels as those of the training."""

    origins: torch.Tensor
    """Origins of the patches [m]; shape (levels, types, 3)."""
    flat_patches: Mapping[str, torch.Tensor]
    """Flat patches [m] by name; shape (levels, types, flat patches, 3)."""
    away_m: float
    """x of the middle of this ground; the middle of the trained ground is at the same distance on the other side."""


class FlatPatches(dict[str, torch.Tensor]):
    """Flat patches of the trained ground by name, as Isaac Lab keeps them, together with the held-out ground.

    Isaac Lab's importer passes on a generator's origins and flat patches, and nothing else.
    """

    def __init__(self, trained: Mapping[str, torch.Tensor], held_out: HeldOutGround) -> None:
        """Keep the patches.

        Args:
            trained: Flat patches of the trained ground.
            held_out: The held-out ground.
        """
        super().__init__(trained)
        self.held_out = held_out


def patched_terrain(base: ManagerBasedRLEnv) -> Any:
    """Return the terrain of an environment; ``None`` unless it has patches of different types and levels.

    Args:
        base: The environment, unwrapped.
    """
    terrain = base.scene.terrain
    return terrain if getattr(terrain, "terrain_origins", None) is not None else None


def held_out_ground(base: ManagerBasedRLEnv) -> HeldOutGround | None:
    """Return the held-out ground of an environment; ``None`` if its configuration asks for none.

    Args:
        base: The environment, unwrapped.

    Raises:
        UserError: If the task's own importer loses the held-out ground.
    """
    if not has_held_out_ground(base.cfg):
        return None
    terrain = base.scene.terrain
    patches = getattr(terrain, "flat_patches", None)
    if not isinstance(patches, FlatPatches):
        raise UserError(
            f"terrain importer {type(terrain).__name__} does not keep the flat patches that its generator returns, so "
            "held-out episodes have no ground of their own: let its property flat_patches return them"
        )
    return patches.held_out


@contextmanager
def on_held_out_ground(base: ManagerBasedRLEnv) -> Iterator[None]:
    """Within the context, the patches of a terrain are those of its held-out ground, if it has one.

    The values change inside the same tensors, because commands of Isaac Lab keep references to flat patches.

    Args:
        base: The environment, unwrapped.
    """
    ground = held_out_ground(base)
    if ground is None:
        yield
        return
    terrain = base.scene.terrain
    pairs = [(terrain.flat_patches[name], patches) for name, patches in ground.flat_patches.items()]
    if terrain.terrain_origins is not None:
        pairs.append((terrain.terrain_origins, ground.origins))
    trained = [own.clone() for own, _ in pairs]
    try:
        for own, other in pairs:
            own.copy_(other)
        yield
    finally:
        for (own, _), before in zip(pairs, trained, strict=True):
            own.copy_(before)


class GroundWatch:
    """Notices episodes that a task's own reset starts on the other ground. Looking does not wait for the device."""

    def __init__(self, base: ManagerBasedRLEnv, first: int) -> None:
        """Watch the starts of all slots.

        Args:
            base: The environment, unwrapped.
            first: The first held-out slot.
        """
        self._base, self._first = base, first
        self._crossed: torch.Tensor | None = None
        if held_out_ground(base) is not None:
            self._crossed = torch.zeros((), dtype=torch.bool, device=base.device)

    def look(self, ids: torch.Tensor) -> None:
        """Look at slots whose episodes have just started.

        Args:
            ids: Environment ids; shape (n,).
        """
        if self._crossed is None:
            return
        side = torch.where(ids < self._first, -1.0, 1.0)
        for part in (*self._base.scene.articulations.values(), *self._base.scene.rigid_objects.values()):
            self._crossed |= (part.data.root_pos_w.torch[ids, 0] * side < 0.0).any()

    def require_apart(self) -> None:
        """Refuse a task whose resets do not keep the grounds apart.

        Raises:
            UserError: If an episode started on the other ground.
        """
        if self._crossed is not None and bool(self._crossed):
            raise UserError(
                "a reset places training robots on held-out ground, or held-out robots on the ground of the training: "
                "let it place robots around env_origins, within the patches"
            )


def separate_grids(base: ManagerBasedRLEnv, first: int, undo: ExitStack) -> None:
    """Move the origins of slots to their own ground, if a task puts slots on a grid and not on patches.

    Args:
        base: The environment, unwrapped.
        first: The first held-out slot.
        undo: Moves them back when it closes.
    """
    ground, terrain = held_out_ground(base), base.scene.terrain
    if ground is None or terrain.terrain_origins is not None:
        return
    before = terrain.env_origins.clone()
    undo.callback(terrain.env_origins.copy_, before)
    terrain.env_origins[:first, 0] -= ground.away_m
    terrain.env_origins[first:, 0] += ground.away_m


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
