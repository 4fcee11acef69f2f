"""Plans: the trainings that are handed to an engine together, and the folder of their submission."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger.liveness import identify_process, is_alive
from ledger_lab.ledger.rows import ProcessIdentity

PLAN = "plan.jsonl"
"""File with one training a line."""
_SUBMITTED = "submission.json"
_FOLDER = "submissions"
"""Folder of all submissions, below the root of the ledger."""
_TAKES = timedelta(minutes=10)
"""Longest time that a program on another machine is given to submit a plan."""


@dataclass(frozen=True, kw_only=True)
class PlannedTraining:
    """One line of ``plan.jsonl``: a training as a command. Its index is the number of the line, from 0."""

    what: str
    """Name of the training within its plan."""
    start: tuple[str, ...]
    """Arguments of ``train.py`` that start it."""
    resume: tuple[str, ...]
    """Arguments of ``train.py`` that follow ``--resume RUN``, if it is interrupted."""
    nodes: int = 1
    """Machines that it uses at the same time."""
    processes: int = 1
    """Processes on each machine."""
    program: str
    """Path of ``train.py``, relative to :attr:`directory`, or absolute."""
    directory: str
    """Working directory."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Trainings that are submitted together."""

    name: str
    """Name of the study, or of the script."""
    trainings: tuple[PlannedTraining, ...]
    at_once: int | None = None
    """Largest number of trainings that run at the same time; ``None`` without a limit."""

    @property
    def nodes(self) -> int:
        """Machines of each training."""
        return max(training.nodes for training in self.trainings)

    def to_lines(self) -> str:
        """Return the content of ``plan.jsonl``."""
        return "".join(msgspec.json.encode(asdict(training)).decode() + "\n" for training in self.trainings)

    @property
    def sha256(self) -> str:
        """SHA-256 of the content of ``plan.jsonl``."""
        return hashlib.sha256(self.to_lines().encode()).hexdigest()


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

    @property
    def is_abandoned(self) -> bool:
        """Whether the program that began to submit it has ended, or has taken too long."""
        if self.pid == os.getpid() and self.process == identify_process(self.pid):
            return True  # this process is not submitting while it looks
        began = datetime.fromisoformat(self.submitted_at)
        alive = is_alive(self.pid, began, self.process)
        return alive is False or (alive is None and datetime.now(UTC) - began > _TAKES)


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


def run_file(folder: Path, index: int) -> Path:
    """Return the file into which a training writes the directory of its run."""
    return folder / "runs" / str(index)


def read_run_dir(folder: Path, index: int) -> Path | None:
    """Return the directory of the run that a training made; ``None`` if it made none, or if it was refused."""
    try:
        directory = Path(run_file(folder, index).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return directory if directory.is_dir() else None


def read_plan(folder: Path, sha256: str) -> list[PlannedTraining]:
    """Read ``plan.jsonl``.

    Without the check of its content, a shortened file would hide trainings, which would be submitted again; and whoever
    can write to the file could choose what the job runs.

    Args:
        folder: Folder of a submission.
        sha256: SHA-256 of the file when it was submitted.

    Raises:
        UserError: If the file is missing, or is not the one that was submitted.
    """
    try:
        content = (folder / PLAN).read_bytes()
    except OSError as error:
        raise UserError(
            f"{folder / PLAN} can't be read ({error}): the nodes must see this folder; set log_root to a folder that "
            "all nodes share"
        ) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(
            f"{folder / PLAN} was changed after its submission: restore it; or cancel the job that submission.json "
            "names, and remove the folder"
        )
    return [msgspec.json.decode(line, type=PlannedTraining) for line in content.splitlines()]


def _numbered(folder: Path) -> list[Path]:
    """Return the submissions in the folder of a name, in order; people may keep copies beside them."""
    return sorted((each for each in folder.glob("[0-9]*") if each.name.isdecimal()), key=lambda each: int(each.name))


def new_folder(log_root: Path, name: str) -> Path:
    """Return the folder that the next submission of a name will have, ``submissions/NAME/NUMBER``."""
    folder = log_root.resolve() / _FOLDER / name
    return folder / f"{max((int(each.name) for each in _numbered(folder)), default=0) + 1:03}"


def draft_submission(folder: Path, engine: str, site: str, plan: Plan) -> Draft:
    """Describe a submission that this process is going to make.

    Args:
        folder: Its folder, from :func:`new_folder`.
        engine: Name of the engine.
        site: Name of the cluster.
        plan: The trainings.
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
            raise UserError(
                f"{folder} exists: another program submitted at the same time: look with --status"
            ) from error
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
        return msgspec.json.decode((folder / _SUBMITTED).read_bytes(), type=_Noted)
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(
            f"{folder / _SUBMITTED} can't be read ({error}): restore it; or look for jobs whose names begin with "
            f"ledger_lab-{folder.parent.name}-{folder.name}-, cancel them, and remove the folder"
        ) from error


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
    """
    return sorted(folder.name for folder in (log_root.resolve() / _FOLDER).glob("*") if _numbered(folder))


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
        )
        for folder in _numbered(log_root.resolve() / _FOLDER / name)
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
        for folder in _numbered(log_root.resolve() / _FOLDER / name)
        if (noted := _read_noted(folder)).job is not None
    ]


def latest_by_name(submissions: Sequence[Submission]) -> dict[str, tuple[Submission, int]]:
    """Return the last submission of each training, and its index there, by the name of the training."""
    return {
        training.what: (submission, index)
        for submission in submissions
        for index, training in enumerate(submission.trainings())
    }
