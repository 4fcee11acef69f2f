"""Keeps the rows about an end: their disk space is reserved, writing is retried, and a refused request leaves none."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from ledger_lab.ledger import Journal, Row
from ledger_lab.ledger.runs import telemetry_path, worker_path

_BYTES = 64 * 1024
"""Space for one end [B]."""
_RETRY_S, _RETRIES = 0.5, 20


def reserve(folder: Path, ends: int) -> IO[bytes]:
    """Return a nameless file whose space is free for the ends of attempts when it is closed.

    Args:
        folder: Folder of their journals.
        ends: Number of ends.

    Raises:
        OSError: If there is no space.
    """
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - nameless: it never outlives this process
    os.posix_fallocate(file.fileno(), 0, ends * _BYTES)
    return file


def insist(rows: Mapping[Journal, Row]) -> None:
    """Write a row into each of several journals, retrying for 10 s. Each journal gets its row once.

    Args:
        rows: The journals with their rows.

    Raises:
        OSError: If a journal still could not be written.
    """
    for journal, row in rows.items():
        with suppress(OSError):  # the journal keeps the row, and settles it below
            journal.append(row)
    for left in reversed(range(_RETRIES + 1)):
        errors = []
        for journal in rows:
            try:
                journal.settle()
            except OSError as error:
                errors.append(error)
        if not errors:
            return
        if not left:
            raise errors[0]
        time.sleep(_RETRY_S)


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
