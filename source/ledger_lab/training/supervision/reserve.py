"""Disk space that is reserved for the rows about the end of attempts and evaluations."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

_BYTES = 64 * 1024
"""Space for one end [B]."""


class Reserve:
    """Space on one or more file systems, which is freed just before it is needed."""

    def __init__(self) -> None:
        """Reserve nothing yet."""
        self._files: dict[int, IO[bytes]] = {}
        """Nameless files, by the device numbers of their file systems."""

    def add(self, folder: Path) -> None:
        """Reserve space for one more end on the file system of a folder.

        Args:
            folder: The folder.

        Raises:
            OSError: If there is no space.
        """
        device = folder.stat().st_dev
        if device not in self._files:
            self._files[device] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - nameless: it never outlives us
        descriptor = self._files[device].fileno()
        os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, _BYTES)

    def sizes(self) -> list[int]:
        """Return the reserved space on each file system [B]."""
        return [os.fstat(file.fileno()).st_blocks * 512 for file in self._files.values()]

    def free(self) -> None:
        """Free all of the space."""
        for file in self._files.values():
            file.close()
        self._files.clear()
