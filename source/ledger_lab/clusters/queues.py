"""Asks engines about all submissions of a ledger."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ledger_lab.clusters.engine import load_engine
from ledger_lab.clusters.plans import read_run_dir
from ledger_lab.clusters.submissions import Submission, read_submissions, submission_names
from ledger_lab.errors import UserError
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.reports.watch.model import QueuedTraining

_FORGET_AFTER_S = 24 * 3600.0
"""How long after the end of a training its engine is asked whether the job still runs [s]."""

_MAY_START_AGAIN = (None, EXIT_REQUEUE, 128 + 15)
"""Exit statuses of trainings whose jobs may wait or run: none yet, or the system has ended a part of the job."""


def ask_queues(log_root: Path, names: Sequence[str] | None = None) -> tuple[list[QueuedTraining], list[str]]:
    """Ask the engines of all submissions that have not ended yet.

    Args:
        log_root: Root of the ledger.
        names: Names of the submissions; ``None`` for all.

    Returns:
        The trainings that wait or run; and in words, what could not be found out.
    """
    found: list[QueuedTraining] = []
    notes: list[str] = []
    try:
        asked = submission_names(log_root) if names is None else names
    except UserError as error:
        return [], [str(error)]
    for name in asked:
        try:
            submissions = [each for each in read_submissions(log_root, name) if each.job]
        except UserError as error:
            notes.append(str(error))
            continue
        for submission in submissions:
            try:
                found += _queued(submission)
            except (UserError, OSError) as error:
                notes.append(f"job {submission.job} of {name}: {error}")
    return found, notes


def _queued(submission: Submission) -> Iterator[QueuedTraining]:
    """Yield the trainings of a submission that wait or run.

    Raises:
        UserError: If the engine does not answer, or the submission can't be read.
    """
    trainings = submission.trainings()
    if not any(_may_go_on(submission, index) for index in range(len(trainings))):
        return  # old submissions are not asked for ever
    engine = load_engine(submission.engine)
    for index, queued in engine.queued(submission).items():
        if index >= len(trainings):
            continue  # another job with the same id and name
        run_directory = read_run_dir(submission.folder, index)
        yield QueuedTraining(
            name=trainings[index].what,
            plan=submission.folder.parent.name,
            job=submission.job,
            index=index,
            runs=queued.runs,
            said=queued.said,
            submitted_at=submission.submitted_at,
            started_at=_started_at(submission, index),
            run_directory=None if run_directory is None else run_directory.resolve(),
            output=submission.output(index),
            cancel=shlex.join(engine.cancel_command(submission)),
        )


def _may_go_on(submission: Submission, index: int) -> bool:
    """Tell whether the job of a training may wait or run: it has not ended, or only lately."""
    if submission.exit_status(index) in _MAY_START_AGAIN:
        return True
    try:
        ended_at = (submission.folder / "exits" / str(index)).stat().st_mtime
    except FileNotFoundError:
        return True  # its next part has just started
    return time.time() - ended_at < _FORGET_AFTER_S


def _started_at(submission: Submission, index: int) -> datetime | None:
    """Return when the latest part of a training's job started."""
    try:
        return datetime.fromtimestamp((submission.folder / "started" / str(index)).stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
