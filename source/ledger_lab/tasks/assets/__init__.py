"""Robots and ground as USD files that need no network."""

from __future__ import annotations

from pathlib import Path

ASSET_ROOT = Path(__file__).parent / "usd"
"""Folder of the USD files, written by ``tools/assets/build.py`` of the repository."""

ANT_USD = ASSET_ROOT / "ant.usda"
ANYMAL_C_USD = ASSET_ROOT / "anymal_c.usda"
CARTPOLE_USD = ASSET_ROOT / "cartpole.usda"
GO2_USD = ASSET_ROOT / "go2.usda"
GROUND_USD = ASSET_ROOT / "ground.usda"
HUMANOID_USD = ASSET_ROOT / "humanoid.usda"
PANDA_USD = ASSET_ROOT / "panda.usda"
PILLARS_USD = ASSET_ROOT / "pillars.usda"
PILLAR_SPACING_M = 3.0
"""Distance between the grid positions of neighbouring pillars [m]."""

DESCRIPTIONS = Path(__file__).parent / "descriptions"
"""Folder of the publishers' descriptions that robots are built from, each with its license."""
