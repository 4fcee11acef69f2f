"""Where a run stands: its signs of life in the ledger, and what its scheduler says.

Whether a run is lost is decided by the ledger alone (:attr:`ledger_lab.ledger.Attempt.status`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from ledger_lab.ledger import Attempt, JournalContent, Run, Status
from ledger_lab.ledger.directories import Directory
from ledger_lab.reports.watch.limits import Limits
from ledger_lab.reports.watch.model import State

_ITERATIONS_OF_SILENCE = 3.0
"""A training whose iterations take long is hung after so many times of its mean iteration, if that is longer than the
limit."""


def last_row_at(run: Run) -> datetime:
    """Return when any process of a run wrote its last row."""
    return max((_last(attempt.journals) for attempt in run.attempts), default=run.declared_at)


def trainer_row_at(run: Run) -> datetime:
    """Return when the training itself wrote its last row, in the last attempt.

    Before its first row, it is the start of its supervisor.
    """
    attempt = run.attempts[-1]
    if attempt.ranks:
        return _last(attempt.ranks)
    return min(journal.first_time for journal in attempt.journals)


def _last(journals: Iterable[JournalContent]) -> datetime:
    """Return when the last row of some journals was written."""
    return max(journal.last_time for journal in journals)


def state_of(run: Run, now: datetime, limits: Limits) -> State:
    """Return where a run stands, according to the ledger.

    Args:
        run: The run.
        now: The time.
        limits: Thresholds.
    """
    if not run.attempts:
        silent_s = (now - run.declared_at).total_seconds()
        return State.RUNNING if silent_s < limits.hung_after_s else State.LOST
    attempt = run.attempts[-1]
    status = attempt.status
    if status in (Status.RUNNING, Status.LOST, Status.PREEMPTED) and run.proven:
        return State.ENDED  # it has done its work, although its last attempt may not have written its end
    if status is Status.RUNNING:
        if now - last_row_at(run) > attempt.silence_limit:
            return State.SILENT  # the process exists on this machine, or it would be lost
        silent_s = (now - trainer_row_at(run)).total_seconds()
        if not attempt.supervisions or silent_s <= limits.hung_after_s:
            return State.RUNNING
        return State.HUNG if silent_s > _ITERATIONS_OF_SILENCE * _iteration_s(attempt) else State.RUNNING
    if status is Status.LOST:
        return State.LOST
    return State.PREEMPTED if status is Status.PREEMPTED else State.ENDED


def _iteration_s(attempt: Attempt) -> float:
    """Return the mean time of the iterations of an attempt, start-up included [s]; 0 before the first one.

    A resumed attempt begins with the iterations of earlier attempts, so it only counts windows.
    """
    sums = attempt.sums
    return sums.wall_ns / 1e9 / sums.count if sums.iterations else 0.0


def changed_directories(directories: Iterable[Directory], since: datetime) -> set[Path]:
    """Return the directories with a journal that was written to since some time. No journal is read for that.

    Args:
        directories: Directories of the ledger.
        since: The time.
    """
    since_ns = since.timestamp() * 1e9
    return {directory.path for directory in directories if _changed_ns(directory) >= since_ns}


def _changed_ns(directory: Directory) -> int:
    """Return when a journal of a directory was last written to [ns]."""
    if directory.entry is not None:
        stamps = [*directory.entry.stamps.values()]
    else:
        stamps = [found[0] for found in directory.found.values() if isinstance(found, tuple)]
    return max((stamp.mtime_ns for stamp in stamps), default=0)
