"""Paths of LedgerLab's data files."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def panel_files() -> list[Path]:
    """Return the files of the panels that come with the tasks."""
    return sorted((_PACKAGE / "tasks").glob("*/panels/*.toml"))


def config_root() -> Path:
    """Return the folder with prices, studies, searches and clusters, which a checkout also shows as ``config/``."""
    return _PACKAGE / "config"
