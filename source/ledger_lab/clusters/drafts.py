"""Drafts: submissions whose engine has not answered yet, and how they become submissions."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from ledger_lab.clusters.plans import PLAN, Plan
from ledger_lab.clusters.submission_folders import (
    SubmissionFile,
    noted_submissions,
    read_submission_file,
    write_submission_file,
)
from ledger_lab.clusters.submissions import Submission
from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger.liveness import identify_process, is_alive
from ledger_lab.ledger.rows import ProcessIdentity

_TAKES_S = 1200.0
"""Longest time that a program on another machine is given to submit a plan [s]; longer than any engine takes."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What is known of a submission before the engine has answered."""

    folder: Path
    """Holds the files of the plan and of its jobs: ``output/INDEX.log``, ``exits/INDEX`` and ``runs/INDEX``."""
    engine: str
    """Name of the engine."""
    site: str
    """Name of the file in ``config/clusters``."""
    job_name: str
    """Name of the job, as ``ledger_lab-STUDY-NUMBER-RANDOM``. No other job has it."""
    submitted_at: str
    """When the program began to submit it, in ISO 8601."""
    plan_sha256: str
    """SHA-256 of the content of ``plan.jsonl``."""
    pid: int
    """Id of the process that submits it."""
    process: ProcessIdentity | None
    """That process; ``None`` if unknown."""
    cluster: str | None = None
    """Name that the engine's cluster gives itself; ``None`` if it has none."""

    @classmethod
    def of(cls, folder: Path, noted: SubmissionFile) -> Self:
        """Return what is noted of a submission.

        Args:
            folder: Its folder.
            noted: What is noted there.
        """
        return cls(
            folder=folder,
            engine=noted.engine,
            site=noted.site,
            job_name=noted.job_name,
            submitted_at=noted.submitted_at.isoformat(timespec="seconds"),
            plan_sha256=noted.plan_sha256,
            pid=noted.pid,
            process=noted.process,
            cluster=noted.cluster,
        )

    def noted(self, job: str | None) -> SubmissionFile:
        """Return what is noted of it.

        Args:
            job: Id of its job; ``None`` until the engine has answered.
        """
        return SubmissionFile(
            version=1,
            engine=self.engine,
            site=self.site,
            job_name=self.job_name,
            job=job,
            submitted_at=datetime.fromisoformat(self.submitted_at),
            plan_sha256=self.plan_sha256,
            pid=self.pid,
            process=self.process,
            cluster=self.cluster,
        )

    @property
    def is_abandoned(self) -> bool:
        """Whether the program that began to submit it has ended, or has taken too long."""
        if self.pid == os.getpid() and self.process == identify_process(self.pid):
            return True  # this process is not submitting while it looks
        began = datetime.fromisoformat(self.submitted_at)
        alive = is_alive(self.pid, began, self.process)
        return alive is False or (alive is None and self.age_s > _TAKES_S)

    @property
    def age_s(self) -> float:
        """Time since the program began to submit it [s]."""
        return (datetime.now(UTC) - datetime.fromisoformat(self.submitted_at)).total_seconds()


def draft_submission(folder: Path, engine: str, site: str, plan: Plan, *, cluster: str | None = None) -> Draft:
    """Describe a submission that this process is going to make.

    Args:
        folder: Its folder, from :func:`new_folder`.
        engine: Name of the engine.
        site: Name of the cluster.
        plan: The trainings.
        cluster: Name that the engine's cluster gives itself.
    """
    return Draft(
        folder=folder,
        engine=engine,
        site=site,
        job_name=f"ledger_lab-{folder.parent.name}-{folder.name}-{secrets.token_hex(4)}",
        submitted_at=datetime.now(UTC).isoformat(timespec="seconds"),
        plan_sha256=plan.sha256,
        pid=os.getpid(),
        process=identify_process(os.getpid()),
        cluster=cluster,
    )


def write_folder(draft: Draft, files: dict[str, str]) -> None:
    """Write the files of a submission. Only one of several programs can write the same folder, and it appears complete.

    Only this user can write to the folder and its files, whatever the umask, and at most the user's group can replace
    the folder. Only this user can read the files of the engine, because they hold the environment variables of the
    site.

    Args:
        draft: The submission; its folder must not exist.
        files: Content by name.

    Raises:
        UserError: If another program submits at the same time, or the folder can't be written to.
    """
    folder, unfinished = draft.folder, None
    try:
        folder.parents[2].mkdir(parents=True, exist_ok=True)
        for each in (folder.parents[1], folder.parent):
            each.mkdir(mode=0o775, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".unfinished_", dir=folder.parent))
        for path in (*(unfinished / name for name in ("output", "started", "exits", "runs")), unfinished):
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
        for name, content in files.items():
            with whole_file(unfinished / name) as path:
                path.touch(mode=0o644 if name == PLAN else 0o600)
                path.write_text(content, encoding="utf-8")
        write_submission_file(unfinished, draft.noted(None))
        unfinished.rename(folder)
    except OSError as error:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise UserError(f"{folder} exists: another program submitted at the same time: call again") from error
        raise UserError(f"cannot write to {folder}: {error.strerror}: correct log_root of the cluster") from error


def note_submission(draft: Draft, job: str) -> Submission:
    """Write which job has taken a plan.

    Args:
        draft: The submission.
        job: Id of the job.

    Returns:
        The submission.

    Raises:
        OSError: If the file can't be written.
    """
    noted = draft.noted(job)
    write_submission_file(draft.folder, noted)
    return Submission.of(draft.folder, noted, job)


def drop_draft(draft: Draft) -> None:
    """Remove the folder of a submission that its engine has not taken.

    Args:
        draft: The submission.
    """
    away = draft.folder.with_name(f".dropped_{draft.job_name}")
    draft.folder.rename(away)  # as one step: a folder that is half removed looks damaged
    noted = read_submission_file(away)
    if (noted.job_name, noted.job) != (draft.job_name, None):  # another program was faster, and has submitted anew
        away.rename(draft.folder)
        return
    shutil.rmtree(away)


def read_drafts(log_root: Path, name: str) -> list[Draft]:
    """Return the submissions of a name whose engine has not answered, in order.

    Args:
        log_root: Root of the ledger.
        name: Name of the study, or of the script.

    Raises:
        UserError: If a folder can't be read, or a file is damaged.
    """
    noted = noted_submissions(log_root, name)
    return [Draft.of(folder, each) for folder, each in noted if each.job is None]
