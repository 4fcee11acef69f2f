"""Warp's cache of compiled kernels: where it is, and faults of it that would end every simulation."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ledger_lab.errors import UserError

_UNFINISHED = re.compile(r"_p\d+_t\d+")
"""End of the name of a folder that another process compiles into."""


def cache_home(environ: Mapping[str, str]) -> Path:
    """Return the folder for the caches of all programs.

    Args:
        environ: The environment.
    """
    return Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "/nonexistent") / ".cache")


def require_kernel_cache(environ: Mapping[str, str]) -> Path:
    """Return the folder of compiled kernels, which is created if needed.

    Args:
        environ: The environment.

    Raises:
        UserError: If it can't be written, or a file in it is empty. A full disk or a power failure leaves empty files.
    """
    folder = Path(environ.get("WARP_CACHE_PATH") or cache_home(environ) / "warp")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as trial:
            trial.write(b"x")
    except OSError as error:
        raise UserError(
            f"compiled kernels can't be kept in {folder} ({error.strerror}): set WARP_CACHE_PATH to a folder that you "
            "can write"
        ) from error
    for module in folder.glob("*/wp_*"):
        for file in () if _UNFINISHED.search(module.name) else module.iterdir():
            if not file.stat().st_size:
                raise UserError(f"the compiled kernel {file} is empty; the disk may have been full: remove {folder}")
    return folder
