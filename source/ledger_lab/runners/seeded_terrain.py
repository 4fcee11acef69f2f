"""Generated ground that its own seed fixes, whatever the training's seed is."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import torch
from isaaclab.terrains import TerrainGenerator

from ledger_lab.panels.streams import GlobalStreams

if TYPE_CHECKING:
    from isaaclab.terrains import TerrainGeneratorCfg


class SeededTerrainGenerator(TerrainGenerator):
    """Isaac Lab's generator, with all that it draws from the seed of its configuration.

    Isaac Lab itself draws the kinds and difficulties of patches from that seed, but heights and obstacles from the
    streams that everybody shares, so that another training's ground looks different. Here the shared streams are given
    back as they were.
    """

    def __init__(self, cfg: TerrainGeneratorCfg, device: str = "cpu") -> None:
        """Generate.

        Args:
            cfg: The configuration; it names a seed.
            device: Where flat patches are searched for.
        """
        shared = GlobalStreams()
        random.seed(cfg.seed)
        np.random.seed(cfg.seed)
        torch.manual_seed(cfg.seed)
        try:
            super().__init__(cfg, device)
        finally:
            shared.restore()
