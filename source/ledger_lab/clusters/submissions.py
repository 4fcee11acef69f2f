"""Submissions: plans that an engine has taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ledger_lab.clusters.plans import PlannedTraining, read_plan, train_file
from ledger_lab.clusters.submission_folders import SubmissionFile, noted_submissions
from ledger_lab.reports.terminal.console import EXIT_USER_ERROR


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A plan that an engine has taken."""

    folder: Path
    """Holds the files of the plan and of its jobs: ``output/INDEX.log``, ``exits/INDEX``, ``train/INDEX``
    and ``runs/INDEX``."""
    engine: str
    """Name of the engine."""
    site: str
    """Name of the file in ``config/clusters``."""
    job: str
    """Id of the job, as the engine gives it."""
    submitted_at: str
    plan_sha256: str
    """SHA-256 of ``plan.jsonl`` when it was submitted."""

    @classmethod
    def of(cls, folder: Path, noted: SubmissionFile, job: str) -> Self:
        """Return what is noted of a submission.

        Args:
            folder: Its folder.
            noted: What is noted there.
            job: Id of its job.
        """
        return cls(
            folder=folder,
            engine=noted.engine,
            site=noted.site,
            job=job,
            submitted_at=noted.submitted_at.isoformat(timespec="seconds"),
            plan_sha256=noted.plan_sha256,
        )

    def trainings(self) -> list[PlannedTraining]:
        """Read the trainings, by index."""
        return read_plan(self.folder, self.plan_sha256)

    def exit_status(self, index: int) -> int | None:
        """Return the exit status of a training's last part; ``None`` if none has ended."""
        try:
            return int((self.folder / "exits" / str(index)).read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):  # it is being written
            return None

    def is_refused(self, index: int) -> bool:
        """Tell whether ``train.py`` refused a training; an error of its node before that is no refusal."""
        return self.exit_status(index) == EXIT_USER_ERROR and train_file(self.folder, index).exists()

    def output(self, index: int) -> Path:
        """Return the file with what a training printed."""
        return self.folder / "output" / f"{index}.log"


def read_submissions(log_root: Path, name: str) -> list[Submission]:
    """Return the submissions of a name that an engine has taken, in order.

    Args:
        log_root: Root of the ledger.
        name: Name of the study, or of the script.

    Raises:
        UserError: If a folder can't be read, or a file is damaged.
    """
    noted = noted_submissions(log_root, name)
    return [Submission.of(folder, each, each.job) for folder, each in noted if each.job is not None]


def latest_by_name(submissions: Sequence[Submission]) -> dict[str, tuple[Submission, int]]:
    """Return the last submission of each training, and its index there, by the name of the training."""
    return {
        training.what: (submission, index)
        for submission in submissions
        for index, training in enumerate(submission.trainings())
    }
