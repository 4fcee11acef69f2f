"""Where LedgerLab's data files lie."""

from __future__ import annotations

from pathlib import Path

from ledger_lab.errors import UserError


def config_root() -> Path:
    """Find the folder with prices, panels, studies and clusters.

    An installed package carries it as ``ledger_lab/config``; a source tree, and so an editable install, has it at the
    top, beside ``source/``.

    Returns:
        The absolute path of the folder.

    Raises:
        UserError: The installation has lost its data files.
    """
    package = Path(__file__).resolve().parent
    candidates = (package / "config", package.parents[1] / "config")
    for candidate in candidates:
        if (candidate / "panels").is_dir():
            return candidate
    raise UserError(f"no LedgerLab data in {candidates[0]} or {candidates[1]}; install ledger_lab again")
