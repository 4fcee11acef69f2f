"""Plans: the trainings that are handed to an engine together, and the folder of their submission."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file

PLAN = "plan.jsonl"
"""File with one training a line."""
_SUBMITTED = "submission.json"
_FOLDER = "submissions"
"""Folder of all submissions, below the root of the ledger."""


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
class Submission:
    """A plan that an engine has taken."""

    folder: Path
    """Holds the files of the plan and of its jobs: ``output/INDEX.log``, ``exits/INDEX`` and ``runs/INDEX``."""
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
    """Return the name of the job of a submission, as ``ledger_lab-STUDY-NUMBER``."""
    return f"ledger_lab-{folder.parent.name}-{folder.name}"


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


def write_folder(folder: Path, files: dict[str, str]) -> None:
    """Write the files of a submission. Only one of several programs can write the same folder.

    Only this user can write to the folder and its files, whatever the umask. Only this user can read the files of the
    engine, because they hold the environment variables of the site.

    Args:
        folder: The folder; it must not exist.
        files: Content by name.

    Raises:
        UserError: If another program submits at the same time, or the folder can't be written to.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o755)
        for name in ("output", "started", "exits", "runs"):
            (folder / name).mkdir(mode=0o755)
        for name, content in files.items():
            with whole_file(folder / name) as path:
                path.touch(mode=0o644 if name == PLAN else 0o600)
                path.write_text(content, encoding="utf-8")
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise UserError(
                f"{folder} exists: another program submitted at the same time: look with --status"
            ) from error
        raise UserError(f"cannot write to {folder}: {error.strerror}: correct log_root of the cluster") from error


def note_submission(submission: Submission) -> None:
    """Write which job has taken a plan."""
    noted = _Noted(
        version=1,
        site=submission.site,
        job=submission.job,
        submitted_at=submission.submitted_at,
        plan_sha256=submission.plan_sha256,
    )
    with whole_file(submission.folder / _SUBMITTED) as path:
        path.touch(mode=0o644)
        path.write_bytes(msgspec.json.encode(noted) + b"\n")


def now() -> str:
    """Return the time of a submission, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class _Noted(msgspec.Struct, kw_only=True):
    """Content of ``submission.json``."""

    version: int
    site: str
    job: str
    submitted_at: str
    plan_sha256: str


def submission_names(log_root: Path) -> list[str]:
    """Return the names of all studies and scripts with a submission.

    Args:
        log_root: Root of the ledger.
    """
    return sorted(folder.name for folder in (log_root.resolve() / _FOLDER).glob("*") if _numbered(folder))


def read_submissions(log_root: Path, name: str) -> list[Submission]:
    """Return the submissions of a name, in order.

    Args:
        log_root: Root of the ledger.
        name: Name of the study, or of the script.

    Raises:
        UserError: If a submission was interrupted, or its file is damaged.
    """
    found = []
    for folder in _numbered(log_root.resolve() / _FOLDER / name):
        try:
            noted = msgspec.json.decode((folder / _SUBMITTED).read_bytes(), type=_Noted)
        except FileNotFoundError:
            raise UserError(
                f"{folder}: this submission is not complete: another program is submitting, or was interrupted. Call "
                f"again in a minute; if it stays like this, look for jobs named {job_name(folder)}, cancel them, and "
                "remove the folder"
            ) from None
        except (OSError, msgspec.MsgspecError) as error:
            raise UserError(f"{folder / _SUBMITTED} can't be read: {error}") from error
        found.append(
            Submission(
                folder=folder,
                site=noted.site,
                job=noted.job,
                submitted_at=noted.submitted_at,
                plan_sha256=noted.plan_sha256,
            )
        )
    return found


def latest_by_name(submissions: Sequence[Submission]) -> dict[str, tuple[Submission, int]]:
    """Return the last submission of each training, and its index there, by the name of the training."""
    return {
        training.what: (submission, index)
        for submission in submissions
        for index, training in enumerate(submission.trainings())
    }
