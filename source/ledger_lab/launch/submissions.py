"""Submissions: a folder for each plan that was handed to an engine, and the file that tells which job has taken it."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ledger_lab.documents import read_file
from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.launch.plans import PLAN, Plan, PlannedTraining, read_plan
from ledger_lab.ledger.liveness import identify_process, is_alive
from ledger_lab.ledger.rows import ProcessIdentity

_SUBMITTED = "submission.json"
_FOLDER = "submissions"
"""Folder of all submissions, below the root of the ledger."""
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


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A plan that an engine has taken."""

    folder: Path
    """Holds the files of the plan and of its jobs: ``output/INDEX.log``, ``exits/INDEX`` and ``runs/INDEX``."""
    engine: str
    """Name of the engine."""
    site: str
    """Name of the file in ``config/clusters``."""
    job: str
    """Id of the job, as the engine gives it."""
    submitted_at: str
    plan_sha256: str
    """SHA-256 of ``plan.jsonl`` when it was submitted."""

    def trainings(self) -> list[PlannedTraining]:
        """Read the trainings, by index."""
        return read_plan(self.folder, self.plan_sha256)

    def exit_status(self, index: int) -> int | None:
        """Return the exit status of a training's last part; ``None`` if none has ended."""
        try:
            return int((self.folder / "exits" / str(index)).read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):  # it is being written
            return None

    def output(self, index: int) -> Path:
        """Return the file with what a training printed."""
        return self.folder / "output" / f"{index}.log"


def job_name(folder: Path) -> str:
    """Return the name of the job of a submission.

    Args:
        folder: Folder of the submission.

    Raises:
        UserError: If the file with the name is missing or damaged.
    """
    return _read_noted(folder).job_name


def cluster_of(folder: Path) -> str | None:
    """Return the name of the cluster that was asked to take a submission; ``None`` if its engine gives none.

    Args:
        folder: Folder of the submission.

    Raises:
        UserError: If the file with the name is missing or damaged.
    """
    return _read_noted(folder).cluster


def _names_in(folder: Path) -> list[str]:
    """Return the names of what a folder holds; of a folder that does not exist, none.

    Raises:
        UserError: If it can't be read. Trainings that are missed here would be submitted again.
    """
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(
            f"{folder} can't be read ({error.strerror}): ask its owner for access, or restore it"
        ) from error


def _numbered(folder: Path) -> list[Path]:
    """Return the submissions in the folder of a name, in order; people may keep copies beside them.

    Raises:
        UserError: If the folder can't be read.
    """
    numbers = (name for name in _names_in(folder) if name.isascii() and name.isdecimal())
    return [folder / name for name in sorted(numbers, key=int)]


def folder_of(log_root: Path, name: str) -> Path:
    """Return the folder with the submissions of a name.

    Args:
        log_root: Root of the ledger.
        name: Name of the study, or of the script.
    """
    return log_root / _FOLDER / name


def new_folder(log_root: Path, name: str) -> Path:
    """Return the folder that the next submission of a name will have, ``submissions/NAME/NUMBER``."""
    folder = folder_of(log_root.resolve(), name)
    return folder / f"{max((int(each.name) for each in _numbered(folder)), default=0) + 1:03}"


def later_folder(folder: Path, number: int) -> Path:
    """Return the folder that the submission of a name has if some others come before it.

    Args:
        folder: Folder of the next submission, from :func:`new_folder`.
        number: How many come before it.
    """
    return folder.with_name(f"{int(folder.name) + number:03}")


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
    the folder. Only this user can read the files of the
    engine, because they hold the environment variables of the site.

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
        _note(unfinished, draft, None)
        unfinished.rename(folder)
    except OSError as error:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise UserError(f"{folder} exists: another program submitted at the same time: call again") from error
        raise UserError(f"cannot write to {folder}: {error.strerror}: correct log_root of the cluster") from error


class _Noted(msgspec.Struct, kw_only=True):
    """Content of ``submission.json``."""

    version: Literal[1]
    engine: str
    site: str
    job_name: Annotated[str, msgspec.Meta(pattern=r"^ledger_lab-[\w.+-]+$")]
    job: str | None
    """``None`` until the engine has answered."""
    submitted_at: Annotated[datetime, msgspec.Meta(tz=True)]
    plan_sha256: str
    pid: int
    process: ProcessIdentity | None
    cluster: str | None = None
    """``None`` in older files, too."""


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
    _note(draft.folder, draft, job)
    return Submission(
        folder=draft.folder,
        engine=draft.engine,
        site=draft.site,
        job=job,
        submitted_at=draft.submitted_at,
        plan_sha256=draft.plan_sha256,
    )


def _note(folder: Path, draft: Draft, job: str | None) -> None:
    """Write ``submission.json``."""
    noted = _Noted(
        version=1,
        engine=draft.engine,
        site=draft.site,
        job_name=draft.job_name,
        job=job,
        submitted_at=datetime.fromisoformat(draft.submitted_at),
        plan_sha256=draft.plan_sha256,
        pid=draft.pid,
        process=draft.process,
        cluster=draft.cluster,
    )
    with whole_file(folder / _SUBMITTED) as path:
        path.touch(mode=0o644)
        path.write_bytes(msgspec.json.encode(noted) + b"\n")


def _read_noted(folder: Path) -> _Noted:
    """Read ``submission.json``.

    Raises:
        UserError: If it is missing or damaged.
    """
    try:
        return msgspec.json.decode(read_file(folder / _SUBMITTED), type=_Noted)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise UserError(
            f"{folder / _SUBMITTED} can't be read ({error}): restore it; or look for jobs whose names begin with "
            f"ledger_lab-{folder.parent.name}-{folder.name}-, cancel them, and remove the folder"
        ) from error


def is_from_here(folder: Path) -> bool:
    """Tell whether a program of this machine began to submit a plan, and the machine has not been restarted since.

    Args:
        folder: Folder of the submission.

    Raises:
        UserError: If the file that tells is missing or damaged.
    """
    began, here = _read_noted(folder).process, identify_process(os.getpid())
    if began is None or here is None:
        return False
    return (began.boot_id, began.pid_namespace) == (here.boot_id, here.pid_namespace)


def drop_draft(draft: Draft) -> None:
    """Remove the folder of a submission that its engine has not taken.

    Args:
        draft: The submission.
    """
    away = draft.folder.with_name(f".dropped_{draft.job_name}")
    draft.folder.rename(away)  # as one step: a folder that is half removed looks damaged
    noted = _read_noted(away)
    if (noted.job_name, noted.job) != (draft.job_name, None):  # another program was faster, and has submitted anew
        away.rename(draft.folder)
        return
    shutil.rmtree(away)


def submission_names(log_root: Path) -> list[str]:
    """Return the names of all studies and scripts with a submission.

    Args:
        log_root: Root of the ledger.

    Raises:
        UserError: If their folder can't be read.
    """
    return sorted(_names_in(log_root.resolve() / _FOLDER))


def read_drafts(log_root: Path, name: str) -> list[Draft]:
    """Return the submissions of a name whose engine has not answered, in order.

    Args:
        log_root: Root of the ledger.
        name: Name of the study, or of the script.

    Raises:
        UserError: If a file is damaged.
    """
    return [
        Draft(
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
        for folder in _numbered(folder_of(log_root.resolve(), name))
        if (noted := _read_noted(folder)).job is None
    ]


def read_submissions(log_root: Path, name: str) -> list[Submission]:
    """Return the submissions of a name that an engine has taken, in order.

    Args:
        log_root: Root of the ledger.
        name: Name of the study, or of the script.

    Raises:
        UserError: If a file is damaged.
    """
    return [
        Submission(
            folder=folder,
            engine=noted.engine,
            site=noted.site,
            job=noted.job,
            submitted_at=noted.submitted_at.isoformat(timespec="seconds"),
            plan_sha256=noted.plan_sha256,
        )
        for folder in _numbered(folder_of(log_root.resolve(), name))
        if (noted := _read_noted(folder)).job is not None
    ]


def latest_by_name(submissions: Sequence[Submission]) -> dict[str, tuple[Submission, int]]:
    """Return the last submission of each training, and its index there, by the name of the training."""
    return {
        training.what: (submission, index)
        for submission in submissions
        for index, training in enumerate(submission.trainings())
    }
