"""Whether an attempt may still write: asked before another attempt begins, so it must not be wrong."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger.rows import Status
from ledger_lab.ledger.runs import Attempt


def may_still_write(attempt: Attempt, run_dir: Path) -> bool:
    """Tell whether an attempt without a recorded end may still write.

    A status depends on the times in rows, which are by the clock of the host that wrote them. If that clock is wrong,
    a live attempt looks lost. So the file times of its journals are asked, too: they and :func:`file_system_time` are
    by the same clock.

    Args:
        attempt: The attempt.
        run_dir: Directory of its run.

    Raises:
        UserError: If the directory can't be written to.
    """
    if attempt.ended is not None:
        return False
    if attempt.status is Status.RUNNING or attempt.is_known_here:
        return attempt.status is Status.RUNNING
    written_s = max(modified_s(journal.path) for journal in attempt.journals)
    return file_system_time(run_dir) - written_s < attempt.silence_limit.total_seconds()


def modified_s(path: Path) -> float:
    """Return when a file was changed, by the clock of its file system [s]; 0 if it no longer exists.

    Args:
        path: The file. To open it makes a network file system ask its server.
    """
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return 0.0


def file_system_time(folder: Path) -> float:
    """Return the time by the clock of the file system that holds a folder [s]: that of a new file.

    Args:
        folder: The folder.

    Raises:
        UserError: If it can't be written to.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock-") as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from error
