"""The environment of the parts of the GPU kit, on a machine of which nothing is known."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from benchmarks.comparison import ROOT

CACHES = {
    "WARP_CACHE_PATH": "warp",
    "CUDA_CACHE_PATH": "cuda",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
}
"""Variables that name the folders of compiled kernels, with names for these folders."""


def environ_of_parts(scratch: Path, environ: Mapping[str, str] = os.environ, *, caches: Path | None) -> dict[str, str]:
    """Return the environment variables of all parts.

    The parts find LedgerLab in the source tree. If it is not installed, its entry point, through which `isaaclab train`
    finds its tasks, comes from metadata that are written here. If the home folder can't be written, there is another.
    Temporary files go below ``scratch``.

    Args:
        scratch: A folder for all this.
        environ: Variables to begin with.
        caches: Folder for compiled kernels; ``None`` for the folders that the environment names.
    """
    made = dict(environ)
    paths = [ROOT / "source", ROOT, *([] if _is_installed() else [_write_metadata(scratch / "metadata")])]
    made["PYTHONPATH"] = os.pathsep.join([*map(str, paths), *filter(None, [environ.get("PYTHONPATH")])])
    made.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as isaaclab.sh sets it
    made.setdefault("GIT_PYTHON_REFRESH", "quiet")  # RSL-RL's import of GitPython fails where git is missing
    home = Path(environ.get("HOME") or "/nonexistent")
    if not os.access(home, os.W_OK | os.X_OK):
        made["PYTHONUSERBASE"] = site.getuserbase()
        made["HOME"] = str(scratch / "home")
        Path(made["HOME"]).mkdir()
    made["TMPDIR"] = str(scratch / "tmp")
    Path(made["TMPDIR"]).mkdir()
    if caches is not None:
        made |= {variable: str(caches.absolute() / name) for variable, name in CACHES.items()}
    return made


def _is_installed() -> bool:
    """Tell whether LedgerLab has metadata in this environment."""
    try:
        distribution("ledger_lab")
    except PackageNotFoundError:
        return False
    return True


def _write_metadata(folder: Path) -> Path:
    """Write the metadata of LedgerLab as an installation does; without setuptools, there are none.

    Args:
        folder: A new folder for them.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True)
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(folder)]
    try:
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()[-300:]
        sys.stderr.write(f"`isaaclab train` will not find LedgerLab's tasks: {reason}\n")
    return folder


def cached_kernels(environ: Mapping[str, str]) -> int | None:
    """Return the number of modules in Warp's kernel cache.

    Args:
        environ: Variables of the parts.

    Returns:
        The number; ``None`` if the variables do not name the cache.
    """
    folder = environ.get("WARP_CACHE_PATH")
    return None if folder is None else sum(1 for _ in Path(folder).glob("*/wp_*"))
