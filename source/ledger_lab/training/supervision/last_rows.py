"""Keeps the rows about an end: their disk space is reserved, writing is retried, and a refused request leaves none."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from ledger_lab.ledger import Journal, Row
from ledger_lab.ledger.runs import telemetry_path, worker_path

_BYTES = 64 * 1024
"""Space for one end [B]."""
_RETRY_S, _RETRIES = 0.5, 20


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


def insist(rows: Mapping[Journal, Row]) -> None:
    """Write a row into each of several journals, retrying for 10 s. Each journal gets its row once.

    Args:
        rows: The journals with their rows.

    Raises:
        OSError: If a journal still could not be written.
    """
    owing: dict[Journal, OSError] = {}
    for journal, row in rows.items():
        try:
            journal.append(row)
        except OSError as error:
            owing[journal] = error
    for _ in range(_RETRIES):
        if not owing:
            return
        time.sleep(_RETRY_S)
        for journal in list(owing):
            try:
                journal.settle()
            except OSError as error:
                owing[journal] = error
            else:
                del owing[journal]
    if owing:
        raise next(iter(owing.values()))


def withdraw(supervision: Path, log: Path | None, *, whole: bool) -> None:
    """Remove the files of one refused process.

    Some mistakes of a request show only in the simulation, after the first rows of the attempt were written. If nothing
    was trained or scored, these rows are about nothing. They are removed after the process has ended; until then, the
    last row has the status ``refused``.

    Args:
        supervision: Journal of its supervisor, closed.
        log: File with the output of the process.
        whole: Whether to remove the directory, too, if no journal is left in it: no other process of the run, and no
            earlier attempt.

    Raises:
        OSError: If a file can't be removed. The journal of the supervisor, which says that the request was refused, is
            removed last.
    """
    for path in (worker_path(supervision), telemetry_path(supervision), log, supervision):
        if path is not None:
            path.unlink(missing_ok=True)
    folder = supervision.parent
    if whole and not any(folder.glob("journal-*")):
        shutil.rmtree(folder, ignore_errors=True)  # another rank may be removing it, too
