"""Removes what a refused request has written.

Some mistakes of a request show only in the simulation: a success function that mixes environments, for example. The
rows of an attempt are written before the simulation exists, so that a crash, a kill or a loss of power during the
start-up leaves evidence and is billed. If the start-up ends with a refusal instead, and nothing was trained or scored,
these rows are about nothing, and they are removed. Only the supervisor removes them, and only after the process has
ended. Until then, the last row has the status ``refused``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ledger_lab.ledger.runs import telemetry_path, worker_path


def withdraw(supervision: Path, log: Path | None, *, whole: bool) -> None:
    """Remove the files of one refused process.

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
