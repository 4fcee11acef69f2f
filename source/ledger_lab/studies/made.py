"""Which trainings of a study are in the ledger."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ledger_lab.ledger import Run, Status
from ledger_lab.studies.study import Training

ENDED_FROM_OUTSIDE = {Status.INTERRUPTED, Status.PREEMPTED, Status.KILLED, Status.LOST}
"""Statuses of trainings that something outside of the training interrupted. Such a training is resumed from its saved
state, or repeated; its cost stays in the ledger."""


def is_made(training: Training, runs: Sequence[Run], unfinished: Collection[Status] = ENDED_FROM_OUTSIDE) -> bool:
    """Tell whether a training has finished: it has a run that is proven, or whose status is not in ``unfinished``."""
    return any(has_finished(run, unfinished) for run in runs_made_by(training, runs))


def has_finished(run: Run, unfinished: Collection[Status] = ENDED_FROM_OUTSIDE) -> bool:
    """Tell whether a run with an attempt is proven, or its status is not in ``unfinished``."""
    return run.attempts[-1].status not in unfinished or run.proven


def runs_made_by(training: Training, runs: Sequence[Run]) -> list[Run]:
    """Return the runs that belong to a training, in order."""
    return [run for run in runs if (run.declared.cohort, run.declared.seed) == (training.arm.cohort, training.seed)]
