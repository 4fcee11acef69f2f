"""Robots and ground as USD files that need no network."""

from __future__ import annotations

from pathlib import Path

ASSET_ROOT = Path(__file__).parent / "usd"
"""Folder of the USD files, written by :mod:`ledger_lab.assets.build`."""

ANT_USD = ASSET_ROOT / "ant.usda"
CARTPOLE_USD = ASSET_ROOT / "cartpole.usda"
GROUND_USD = ASSET_ROOT / "ground.usda"
