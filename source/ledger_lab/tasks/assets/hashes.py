"""Hashes of the shipped USD files, to detect damage."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ledger_lab.files import file_sha256

HASHES = "SHA256SUMS"
"""Name of the file of hashes in the same folder, in the format of ``sha256sum``."""


def fault(path: Path) -> Literal["missing", "damaged"] | None:
    """Return what is wrong with a shipped file; ``None`` if it is whole.

    Args:
        path: The file, in the folder of the hashes.
    """
    if not path.is_file():
        return "missing"
    hashes = path.with_name(HASHES)
    lines = hashes.read_text().splitlines() if hashes.is_file() else []
    return None if f"{file_sha256(path)}  {path.name}" in lines else "damaged"
