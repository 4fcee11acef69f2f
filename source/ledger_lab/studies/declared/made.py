"""Which trainings of a study are in the ledger."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ledger_lab.ledger import Run, Status
from ledger_lab.studies.declared.study import Training

ENDED_FROM_OUTSIDE = {Status.INTERRUPTED, Status.PREEMPTED, Status.KILLED, Status.LOST}
"""Statuses of trainings that something outside of the training interrupted. Such a training is resumed from its saved
state, or repeated; its cost stays in the ledger."""


def is_made(training: Training, runs: Sequence[Run], unfinished: Collection[Status] = ENDED_FROM_OUTSIDE) -> bool:
    """Tell whether a training has finished: one of its runs has, by :func:`has_finished`."""
    return any(has_finished(run, unfinished) for run in runs_made_by(training, runs))


def has_finished(run: Run, unfinished: Collection[Status] = ENDED_FROM_OUTSIDE) -> bool:
    """Tell whether a run has begun, and is proven, has used up its limit, or has a status that is not unfinished."""
    if not run.attempts:
        return False
    status = run.attempts[-1].status
    return status not in unfinished or run.proven or (status in ENDED_FROM_OUTSIDE and _used_up(run))


def _used_up(run: Run) -> bool:
    """Tell whether a run has no time left to be resumed or repeated in."""
    return (left_s := run.limit_left_s) is not None and left_s <= 0


def runs_made_by(training: Training, runs: Sequence[Run]) -> list[Run]:
    """Return the runs that belong to a training, in order."""
    return [run for run in runs if (run.declared.cohort, run.declared.seed) == (training.arm.cohort, training.seed)]
