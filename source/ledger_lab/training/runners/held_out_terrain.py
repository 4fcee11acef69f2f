"""Generates terrain from its own seed: the ground of the training, and held-out ground beside it.

Both grounds have the same configuration, but patches of their own, because they have different seeds. They are one
mesh, so that physics engines and ray casters treat them like any generated terrain:

    trained ground · border · flat · wall · flat · border · held-out ground      (along x)

Isaac Lab knows the patches of the trained ground only, so nothing can send a training robot to held-out ground.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import trimesh
from isaaclab.terrains import TerrainGenerator

from ledger_lab.panels.ground import HELD_OUT_GENERATOR
from ledger_lab.panels.panel import stream_key
from ledger_lab.panels.streams import GlobalStreams
from ledger_lab.panels.terrain import FlatPatches, HeldOutGround
from ledger_lab.training.runners.recorded_calls import replaced

if TYPE_CHECKING:
    from isaaclab.terrains import TerrainGeneratorCfg

SEPARATION_M = 40.0
"""Least distance between patches of the two grounds [m]."""
WALL_M = (1.0, 5.0)
"""Thickness and height of the wall between the grounds [m]. It stops robots at any speed, and rays along the ground."""


class SeededTerrainGenerator(TerrainGenerator):
    """Isaac Lab's generator, with all random numbers drawn from the configuration's seed.

    Isaac Lab draws only the kinds and difficulties of patches from that seed. It draws heights and obstacles from the
    global random streams, so another training seed changes the ground. This class seeds the global streams while it
    generates, and restores them afterwards. It generates on the CPU, because a GPU draws other numbers.
    """

    flat_patches: dict[str, torch.Tensor]

    def __init__(self, cfg: TerrainGeneratorCfg, device: str = "cpu") -> None:
        """Generate the terrain.

        Args:
            cfg: The configuration; its seed must be set.
            device: Device of the flat patches.
        """
        with seeded_streams(cfg.seed), on_the_cpu():
            super().__init__(cfg, "cpu")
        self.device = device
        self.flat_patches = {name: patches.to(device) for name, patches in self.flat_patches.items()}


def on_the_cpu() -> AbstractContextManager[None]:
    """Return a context in which code that looks for a GPU finds none.

    Isaac Lab draws the heights of ``random_grid_terrain`` on a GPU wherever there is one, also with ``--device cpu``.
    """
    return replaced(torch.cuda, is_available=lambda: False)


@contextmanager
def seeded_streams(seed: int) -> Iterator[None]:
    """Within the context, draw from global random streams with a seed of their own.

    Args:
        seed: The seed, below 2^32.
    """
    shared = GlobalStreams()
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        shared.restore()


def rows_in_all(cfg: TerrainGeneratorCfg) -> int:
    """Return how many rows of patches both grounds and their separation are long.

    Terms of a task compute the edge of the terrain from the number of its rows.

    Args:
        cfg: Configuration of the trained ground.
    """
    return 2 * cfg.num_rows + _rows_between(cfg)


def held_out_seed(seed: int) -> int:
    """Return the seed of the held-out ground.

    It depends on nothing else, so all processes and all simulations of a task have the same held-out ground.

    Args:
        seed: Seed of the trained ground.
    """
    return stream_key("ground", "", seed) % 2**32


def held_out_generator(generator: type[TerrainGenerator]) -> type[HeldOutTerrainGenerator]:
    """Return a generator that makes both grounds with a task's own generator.

    Args:
        generator: The task's own class.
    """
    name = f"HeldOutTerrainGenerator[{generator.__module__}:{generator.__qualname__}]"
    return type(name, (HeldOutTerrainGenerator,), {"__module__": HELD_OUT_GENERATOR, "generator": generator})


class HeldOutTerrainGenerator:
    """Makes both grounds; has the attributes that Isaac Lab's importer reads from a generator."""

    generator: ClassVar[type[TerrainGenerator]] = SeededTerrainGenerator
    """Makes one ground."""

    terrain_mesh: trimesh.Trimesh
    """Both grounds."""
    terrain_origins: Any
    """Origins of the patches of the trained ground; shape (rows, columns, 3)."""
    flat_patches: FlatPatches
    """Flat patches of the trained ground, and the held-out ground."""

    def __init__(self, cfg: TerrainGeneratorCfg, device: str = "cpu") -> None:
        """Generate both grounds.

        Args:
            cfg: Configuration of the trained ground, but with :func:`rows_in_all` as its number of rows.
            device: Device of the flat patches. The grounds are generated on the CPU, because a GPU draws other numbers.
        """
        self.cfg = cfg
        between = _rows_between(cfg)
        one, other = copy.copy(cfg), copy.copy(cfg)  # not deep: Isaac Lab writes into the kinds of patches
        one.num_rows = other.num_rows = (cfg.num_rows - between) // 2
        other.seed = held_out_seed(cfg.seed)
        with on_the_cpu():
            trained = self.generator(one, device="cpu")
            with seeded_streams(other.seed):
                held_out = self.generator(other, device="cpu")
        away = 0.5 * (one.num_rows + between) * cfg.size[0]
        for ground, x in ((trained, -away), (held_out, away)):
            ground.terrain_mesh.apply_translation([x, 0.0, 0.0])
            ground.terrain_origins[..., 0] += x
            for patches in ground.flat_patches.values():
                patches[..., 0] += x
        gap = between * cfg.size[0] - 2.0 * cfg.border_width
        width = cfg.num_cols * cfg.size[1] + 2.0 * cfg.border_width
        self.terrain_mesh = trimesh.util.concatenate(
            [trained.terrain_mesh, held_out.terrain_mesh, _floor(gap, width), _wall(width)]
        )
        self.terrain_origins = trained.terrain_origins
        origins = torch.as_tensor(held_out.terrain_origins, dtype=torch.float, device=device)
        own, other_patches = (
            {name: patches.to(device) for name, patches in ground.flat_patches.items()}
            for ground in (trained, held_out)
        )
        self.flat_patches = FlatPatches(own, HeldOutGround(origins, other_patches, away))


def _rows_between(cfg: TerrainGeneratorCfg) -> int:
    """Return the number of rows whose place the separation takes; the borders between the grounds are part of it."""
    return math.ceil(max(SEPARATION_M, 2.0 * cfg.border_width + WALL_M[0]) / cfg.size[0])


def _floor(length: float, width: float) -> trimesh.Trimesh:
    """Return a horizontal rectangle around the origin, at the height of the borders."""
    corners = [[x * length / 2, y * width / 2, 0.0] for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    return trimesh.Trimesh(vertices=corners, faces=[[0, 1, 2], [0, 2, 3]])


def _wall(width: float) -> trimesh.Trimesh:
    """Return a wall along y through the origin."""
    thickness, height = WALL_M
    wall = trimesh.creation.box((thickness, width, height))
    wall.apply_translation([0.0, 0.0, height / 2])
    return wall
