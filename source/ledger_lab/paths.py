"""Paths of LedgerLab's data files."""

from __future__ import annotations

from pathlib import Path

from ledger_lab.errors import UserError

_PACKAGE = Path(__file__).resolve().parent


def panel_files() -> list[Path]:
    """Return the files of the panels that come with the tasks."""
    return sorted((_PACKAGE / "tasks").glob("*/panels/*.toml"))


def config_root() -> Path:
    """Find the folder with prices, studies and clusters.

    An installed package contains it as ``ledger_lab/config``. In a source tree, and so in an editable install, it is
    beside ``source/``.

    Returns:
        The absolute path of the folder.

    Raises:
        UserError: If the installation has no data files.
    """
    candidates = (_PACKAGE / "config", _PACKAGE.parents[1] / "config")
    for candidate in candidates:
        if (candidate / "prices.toml").is_file():
            return candidate
    raise UserError(f"no LedgerLab data in {candidates[0]} or {candidates[1]}; install ledger_lab again")
