"""Which trainings of a study are in the ledger."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ledger_lab.ledger import Run, Status
from ledger_lab.reports.finished import ENDED_FROM_OUTSIDE, has_finished
from ledger_lab.studies.declared.study import Training


def is_made(training: Training, runs: Sequence[Run], unfinished: Collection[Status] = ENDED_FROM_OUTSIDE) -> bool:
    """Tell whether a training has finished: one of its runs has, by :func:`has_finished`."""
    return any(has_finished(run, unfinished) for run in runs_made_by(training, runs))


def runs_made_by(training: Training, runs: Sequence[Run]) -> list[Run]:
    """Return the runs that belong to a training, in order."""
    return [run for run in runs if (run.declared.cohort, run.declared.seed) == (training.arm.cohort, training.seed)]
