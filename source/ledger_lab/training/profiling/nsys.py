"""Profiles with NVIDIA Nsight Systems."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.errors import UserError


def find_nsys() -> str:
    """Return the path of the command ``nsys``.

    Raises:
        UserError: If it isn't installed here.
    """
    found = shutil.which("nsys")
    if found is None:
        raise UserError("--nsys: no nsys in PATH: install NVIDIA Nsight Systems, or record with --trace instead")
    return found


def run_under_nsys(nsys: str, argv: Sequence[str], report: Path, *, on_gpu: bool) -> int:
    """Run this program again under Nsight Systems, and wait for its end.

    Args:
        nsys: Path of ``nsys``.
        argv: Arguments of this program.
        report: Report to write, without its suffix.
        on_gpu: Whether the program uses a GPU; then only the part between the calls of the CUDA profiler API is
            recorded.

    Returns:
        The exit status.
    """
    capture = ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"] if on_gpu else []
    options = ["--trace=cuda,nvtx,osrt", "--force-overwrite=true", f"--output={report}", *capture]
    command = [nsys, "profile", *options, sys.executable, sys.argv[0], *argv]
    return subprocess.run(command, check=False).returncode
