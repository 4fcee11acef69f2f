"""Nsight Systems around a profile."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.errors import UserError


def find_nsys() -> str:
    """Return the path of Nsight Systems' command line.

    Raises:
        UserError: If it isn't installed here.
    """
    found = shutil.which("nsys")
    if found is None:
        raise UserError("--nsys: no nsys in PATH: install NVIDIA Nsight Systems, or record with --trace instead")
    return found


def run_under_nsys(nsys: str, argv: Sequence[str], report: Path, *, on_gpu: bool) -> int:
    """Run this program once more under Nsight Systems, to its end.

    Args:
        nsys: Its command line.
        argv: Arguments of this program.
        report: The report to write, without its ending.
        on_gpu: Whether there are kernels; then only what the program brackets with the CUDA profiler's API is recorded.

    Returns:
        The exit status.
    """
    capture = ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"] if on_gpu else []
    options = ["--trace=cuda,nvtx,osrt", "--force-overwrite=true", f"--output={report}", *capture]
    command = [nsys, "profile", *options, sys.executable, sys.argv[0], *argv]
    return subprocess.run(command, check=False).returncode
