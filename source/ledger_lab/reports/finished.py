"""Which runs have ended for good."""

from __future__ import annotations

from collections.abc import Collection

from ledger_lab.ledger import Run, Status

ENDED_FROM_OUTSIDE = {Status.INTERRUPTED, Status.PREEMPTED, Status.KILLED, Status.LOST}
"""Statuses of trainings that something outside of the training interrupted. Such a training is resumed from its saved
state, or repeated; its cost stays in the ledger."""


def has_finished(run: Run, unfinished: Collection[Status] = ENDED_FROM_OUTSIDE) -> bool:
    """Tell whether a run has begun, and is proven, has used up its limit, or has a status that is not unfinished."""
    if not run.attempts:
        return False
    status = run.attempts[-1].status
    return status not in unfinished or run.proven or (status in ENDED_FROM_OUTSIDE and _used_up(run))


def _used_up(run: Run) -> bool:
    """Tell whether a run has no time left to be resumed or repeated in."""
    return (left_s := run.limit_left_s) is not None and left_s <= 0
