"""Generates terrain from its own seed alone, independent of the training seed and of the device."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from isaaclab.terrains import TerrainGenerator

from ledger_lab.panels.streams import GlobalStreams
from ledger_lab.training.runners.recorded_calls import replaced

if TYPE_CHECKING:
    from isaaclab.terrains import TerrainGeneratorCfg


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
