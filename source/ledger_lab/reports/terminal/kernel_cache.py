"""Finds Warp's cache of compiled kernels, and refuses faults in it that would end every simulation."""

from __future__ import annotations

import errno
import os
import re
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

    Kernels that others have compiled can be used from a folder that this user can't write.

    Args:
        environ: The environment.

    Raises:
        UserError: If it can't be written and holds no kernels, or a file in it is empty. A full disk or a power failure
            leaves empty files.
    """
    folder = Path(environ.get("WARP_CACHE_PATH") or cache_home(environ) / "warp")
    reason: str | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
    modules = [module for module in folder.glob("*/wp_*") if not _UNFINISHED.search(module.name)]
    if reason is None and not modules and not os.access(folder, os.W_OK):
        reason = os.strerror(errno.EACCES)
    if reason is not None:
        raise UserError(
            f"compiled kernels can't be kept in {folder} ({reason}): set WARP_CACHE_PATH to a writable folder"
        )
    for file in (file for module in modules for file in module.iterdir()):
        if not file.stat().st_size:
            raise UserError(f"the compiled kernel {file} is empty; the disk may have been full: remove {folder}")
    return folder
