"""The folders of submissions, ``submissions/NAME/NUMBER``, and the file in each that tells which job has taken it."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ledger_lab.documents import read_file
from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger.liveness import identify_process
from ledger_lab.ledger.rows import ProcessIdentity

_SUBMITTED = "submission.json"
_FOLDER = "submissions"
"""Folder of all submissions, below the root of the ledger."""


class SubmissionFile(msgspec.Struct, kw_only=True):
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


def write_submission_file(folder: Path, noted: SubmissionFile) -> None:
    """Write ``submission.json``.

    Args:
        folder: Folder of a submission.
        noted: Its content.

    Raises:
        OSError: If the file can't be written.
    """
    with whole_file(folder / _SUBMITTED) as path:
        path.touch(mode=0o644)
        path.write_bytes(msgspec.json.encode(noted) + b"\n")


def read_submission_file(folder: Path) -> SubmissionFile:
    """Read ``submission.json``.

    Args:
        folder: Folder of a submission.

    Raises:
        UserError: If it is missing or damaged.
    """
    try:
        return msgspec.json.decode(read_file(folder / _SUBMITTED), type=SubmissionFile)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise UserError(
            f"{folder / _SUBMITTED} can't be read ({error}): restore it; or look for jobs whose names begin with "
            f"ledger_lab-{folder.parent.name}-{folder.name}-, cancel them, and remove the folder"
        ) from error


def noted_submissions(log_root: Path, name: str) -> list[tuple[Path, SubmissionFile]]:
    """Return the folders of the submissions of a name, and what is noted there, in order.

    Args:
        log_root: Root of the ledger.
        name: Name of the study, or of the script.

    Raises:
        UserError: If the folder can't be read, or a file is damaged.
    """
    return [(folder, read_submission_file(folder)) for folder in _numbered(folder_of(log_root.resolve(), name))]


def job_name(folder: Path) -> str:
    """Return the name of the job of a submission.

    Args:
        folder: Folder of the submission.

    Raises:
        UserError: If the file with the name is missing or damaged.
    """
    return read_submission_file(folder).job_name


def cluster_of(folder: Path) -> str | None:
    """Return the name of the cluster that was asked to take a submission; ``None`` if its engine gives none.

    Args:
        folder: Folder of the submission.

    Raises:
        UserError: If the file with the name is missing or damaged.
    """
    return read_submission_file(folder).cluster


def is_from_here(folder: Path) -> bool:
    """Tell whether a program of this machine began to submit a plan, and the machine has not been restarted since.

    Args:
        folder: Folder of the submission.

    Raises:
        UserError: If the file that tells is missing or damaged.
    """
    began, here = read_submission_file(folder).process, identify_process(os.getpid())
    if began is None or here is None:
        return False
    return (began.boot_id, began.pid_namespace) == (here.boot_id, here.pid_namespace)


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
