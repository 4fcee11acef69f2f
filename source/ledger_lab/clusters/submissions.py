"""Submissions: the folders ``submissions/NAME/NUMBER`` with a plan, the files of an engine, and what became of it.

``submission.json`` is written before the engine is asked, with a name that no other job has. So a call that is
interrupted loses nothing: the next one finds the job by its name.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec

from ledger_lab.clusters.plans import PLAN, Plan, PlannedTraining, read_plan, train_file
from ledger_lab.documents import read_file
from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.reports.terminal.console import EXIT_USER_ERROR

_FILE = "submission.json"
_FOLDER = "submissions"
"""Folder of all submissions, below the root of the ledger."""

type _Word = Annotated[str, msgspec.Meta(pattern=r"^(?!-)[\w.:/@\[\],+-]*$")]
"""A text that no program takes for an option. The file may be another user's."""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A plan that is handed to an engine. All fields but the folder are in ``submission.json``."""

    folder: Path
    """Holds the files of the plan and of its jobs: ``output/INDEX.log``, ``exits/INDEX``, ``train/INDEX``
    and ``runs/INDEX``."""
    engine: _Word
    """Name of the engine."""
    site: _Word
    """Name of the file in ``config/clusters``."""
    job_name: _Word
    """Name of the job, as ``ledger_lab-STUDY-NUMBER-RANDOM``. No other job has it."""
    target: _Word = ""
    """Which cluster the engine asks, as the engine writes it; empty if it can't be another one."""
    job: _Word = ""
    """Id of the job, as the engine gives it; empty until the engine has answered."""
    count: int
    """Number of its trainings."""
    submitted_at: Annotated[datetime, msgspec.Meta(tz=True)]
    plan_sha256: str
    """SHA-256 of ``plan.jsonl`` when it was submitted."""

    @classmethod
    def new(cls, folder: Path, engine: str, site: str, plan: Plan, target: str = "") -> Self:
        """Describe a submission that this process is going to make.

        Args:
            folder: Its folder, from :func:`new_folder`.
            engine: Name of the engine.
            site: Name of the cluster.
            plan: The trainings.
            target: Which cluster the engine asks.
        """
        return cls(
            folder=folder,
            engine=engine,
            site=site,
            job_name=f"ledger_lab-{folder.parent.name}-{folder.name}-{secrets.token_hex(4)}",
            target=target,
            count=len(plan.trainings),
            submitted_at=datetime.now(UTC),
            plan_sha256=plan.sha256,
        )

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the submission in a folder.

        Raises:
            UserError: If the file is missing or damaged.
        """
        try:
            content = msgspec.json.decode(read_file(folder / _FILE), type=dict[str, Any])
            return msgspec.convert(content | {"folder": str(folder)}, cls, dec_hook=lambda kind, value: kind(value))
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise UserError(
                f"{folder / _FILE} can't be read ({error}): restore it; or look for jobs whose names begin with "
                f"ledger_lab-{folder.parent.name}-{folder.name}-, cancel them, and remove the folder"
            ) from error

    def write(self, plan: Plan, files: Mapping[str, str]) -> None:
        """Write the folder. Only one of several programs can write the same folder, and it appears complete.

        Only this user can write to the folder and its files, whatever the umask, and at most the user's group can
        replace the folder. Only this user can read the files of the engine, because they hold the environment variables
        of the site.

        Args:
            plan: The plan.
            files: Files of the engine: content by name.

        Raises:
            UserError: If another program submits at the same time, or the folder can't be written to.
        """
        folder, unfinished = self.folder, None
        try:
            folder.parents[2].mkdir(parents=True, exist_ok=True)
            for each in (folder.parents[1], folder.parent):
                each.mkdir(mode=0o775, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(prefix=".unfinished_", dir=folder.parent))
            for path in (*(unfinished / name for name in ("output", "started", "exits", "runs")), unfinished):
                path.mkdir(exist_ok=True)
                path.chmod(0o755)
            for name, content in {PLAN: plan.to_lines(), **files}.items():
                with whole_file(unfinished / name) as path:
                    path.touch(mode=0o644 if name == PLAN else 0o600)
                    path.write_text(content, encoding="utf-8")
            self._write_file(unfinished)
            unfinished.rename(folder)
        except OSError as error:
            if unfinished is not None:
                shutil.rmtree(unfinished, ignore_errors=True)
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise UserError(f"{folder} exists: another program submitted at the same time: call again") from error
            raise UserError(f"cannot write to {folder}: {error.strerror}: correct log_root of the cluster") from error

    def _write_file(self, folder: Path) -> None:
        """Write ``submission.json``."""
        content = {name: value for name, value in asdict(self).items() if name != "folder"}
        with whole_file(folder / _FILE) as path:
            path.touch(mode=0o644)
            path.write_bytes(msgspec.json.encode(content) + b"\n")

    def noted(self, job: str) -> Self:
        """Write which job has taken the plan, and return the submission with it.

        Raises:
            OSError: If the file can't be written.
        """
        noted = replace(self, job=job)
        noted._write_file(self.folder)
        return noted

    def drop(self) -> None:
        """Remove the folder of a submission that its engine has not taken."""
        away = self.folder.with_name(f".dropped_{self.job_name}")
        self.folder.rename(away)  # as one step: a folder that is half removed looks damaged
        shutil.rmtree(away)

    @property
    def age_s(self) -> float:
        """Time since it was made [s]."""
        return (datetime.now(UTC) - self.submitted_at).total_seconds()

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
    """Return the submissions of a name, in order; some may have no job yet.

    Args:
        log_root: Root of the ledger.
        name: Name of the study, or of the script.

    Raises:
        UserError: If a folder can't be read, or a file is damaged.
    """
    return [Submission.read(folder) for folder in _numbered(log_root.resolve() / _FOLDER / name)]


def latest_by_name(submissions: Sequence[Submission]) -> dict[str, tuple[Submission, int]]:
    """Return the last submission of each training, and its index there, by the name of the training."""
    return {
        training.what: (submission, index)
        for submission in submissions
        for index, training in enumerate(submission.trainings())
    }


def submission_names(log_root: Path) -> list[str]:
    """Return the names of all studies and scripts with a submission.

    Args:
        log_root: Root of the ledger.

    Raises:
        UserError: If their folder can't be read.
    """
    return sorted(_names_in(log_root.resolve() / _FOLDER))


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
    """Return the submissions in the folder of a name, in order; people may keep copies beside them."""
    numbers = (name for name in _names_in(folder) if name.isascii() and name.isdecimal())
    return [folder / name for name in sorted(numbers, key=int)]


def new_folder(log_root: Path, name: str) -> Path:
    """Return the folder that the next submission of a name will have, ``submissions/NAME/NUMBER``.

    Args:
        log_root: Root of the ledger.
        name: Name of the study, or of the script.
    """
    folder = log_root.resolve() / _FOLDER / name
    return folder / f"{max((int(each.name) for each in _numbered(folder)), default=0) + 1:03}"


def later_folder(folder: Path, number: int) -> Path:
    """Return the folder that the submission of a name has if some others come before it.

    Args:
        folder: Folder of the next submission, from :func:`new_folder`.
        number: How many come before it.
    """
    return folder.with_name(f"{int(folder.name) + number:03}")
