"""A disk whose faults a test switches on and off while programs run on it."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_PROGRAM = Path(__file__).with_name("faulty_disk.py")


@dataclass(frozen=True)
class Disk:
    """A mounted file system."""

    path: Path
    """Where it is mounted."""
    behind: Path
    """The folder that holds its files; it never fails."""
    _fault_file: Path

    def fail(self, error: str, **where: Any) -> None:
        """Answer system calls with an error from now on.

        Args:
            error: Its name, like ``EIO``.
            where: ``names``, a pattern of file names, and ``operations``, as in ``faulty_disk.py``.
        """
        partial = self._fault_file.with_suffix(".partial")
        partial.write_text(json.dumps({"error": error, **where}))
        partial.replace(self._fault_file)

    def heal(self) -> None:
        """Answer as if nothing had happened."""
        self._fault_file.write_text("")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk without a fault; the test is skipped where none can be mounted."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no faulty disk can be mounted here: that needs root and /dev/fuse")
    try:
        ctypes.CDLL("libfuse3.so.3")
    except OSError:
        pytest.skip("no faulty disk can be mounted here: that needs libfuse 3 (Debian's package fuse3)")
    mounted = Disk(tmp_path / "disk", tmp_path / "behind", tmp_path / "fault")
    mounted.path.mkdir()
    mounted.behind.mkdir()
    mounted.heal()
    command = [sys.executable, str(_PROGRAM), *map(str, (mounted.behind, mounted.path, tmp_path / "fault"))]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        while not os.path.ismount(mounted.path):
            if server.poll() is not None:
                assert server.stderr is not None
                pytest.skip(f"no faulty disk can be mounted here: {server.stderr.read().strip()}")
            time.sleep(0.02)
        yield mounted
    finally:
        mounted.heal()
        subprocess.run(["umount", "--lazy", str(mounted.path)], check=False, capture_output=True)
        try:
            server.wait(2)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
