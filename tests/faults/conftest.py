"""A disk whose faults a test switches on and off while programs run on it."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_PROGRAM = Path(__file__).with_name("faulty_disk.py")
_SHARED = Path(__file__).with_name("shared_disk.py")

CACHE_S = 0.5
"""How long a host of the shared file system keeps attributes, names and listings [s]; NFS keeps them up to 60 s."""


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


@contextmanager
def _mounted(program: Path, folder: Path, mount_point: Path, *more: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Mount a file system, and yield its process; the test is skipped where none can be mounted."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no file system of a test can be mounted here: that needs root and /dev/fuse")
    try:
        ctypes.CDLL("libfuse3.so.3")
    except OSError:
        pytest.skip("no file system of a test can be mounted here: that needs libfuse 3 (Debian's package fuse3)")
    mount_point.mkdir()
    command = [sys.executable, str(program), *map(str, (folder, mount_point, *more))]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        while not os.path.ismount(mount_point):
            if server.poll() is not None:
                assert server.stderr is not None
                pytest.skip(f"no file system of a test can be mounted here: {server.stderr.read().strip()}")
            time.sleep(0.02)
        yield server
    finally:
        subprocess.run(["umount", "--lazy", str(mount_point)], check=False, capture_output=True)
        try:
            server.wait(2)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk without a fault; the test is skipped where none can be mounted."""
    mounted = Disk(tmp_path / "disk", tmp_path / "behind", tmp_path / "fault")
    mounted.behind.mkdir()
    mounted.heal()
    with _mounted(_PROGRAM, mounted.behind, mounted.path, tmp_path / "fault"):
        try:
            yield mounted
        finally:
            mounted.heal()


@dataclass(frozen=True)
class Host:
    """A host of a shared file system."""

    path: Path
    """Where it has mounted the file system."""
    _switches: Path
    _process: subprocess.Popen[str]

    def switch(self, **switches: Any) -> None:
        """Set the switches of ``shared_disk.py``; all others are off."""
        partial = self._switches.with_suffix(".partial")
        partial.write_text(json.dumps(switches))
        partial.replace(self._switches)

    def lose_power(self) -> None:
        """End the host; what has not reached the server is lost."""
        self._process.kill()
        self._process.wait()


@dataclass(frozen=True)
class SharedFileSystem:
    """A file server with two hosts."""

    server: Path
    """The folder behind both."""
    a: Host
    b: Host


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedFileSystem]:
    """Two hosts that share a file system with the semantics of NFS."""
    server = tmp_path / "server"
    server.mkdir()
    with ExitStack() as mounts:
        hosts = []
        for name in "ab":
            switches = tmp_path / f"{name}.json"
            switches.write_text("")
            process = mounts.enter_context(_mounted(_SHARED, server, tmp_path / name, switches, str(CACHE_S)))
            hosts.append(Host(tmp_path / name, switches, process))
        yield SharedFileSystem(server, *hosts)
        for host in hosts:
            host.switch()
