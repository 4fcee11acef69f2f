"""Plans: the trainings that are handed to an engine together, and the file that lists them."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

import ledger_lab
from ledger_lab.documents import read_file
from ledger_lab.errors import UserError

PLAN = "plan.jsonl"
"""File with one training a line."""

_LEAST_LIMIT_S = 1.0
"""Smallest limit of a repeated training, which then records that its time is used up [s]."""


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


def train_program() -> Path:
    """Return the program that trains: ``train.py`` beside the one that was started, or that of this installation.

    A link is kept: from the path, a training knows how the user starts commands (``names.as_started``).
    """
    beside = Path(sys.argv[0]).absolute().with_name("train.py")
    return beside if beside.is_file() else Path(ledger_lab.__file__).parent / "cli" / "scripts" / "train.py"


def limit_flag(left_s: float | None) -> tuple[str, ...]:
    """Return the argument of ``train.py`` that repeats a training within its limit: the last ``--limit_s`` counts.

    Args:
        left_s: What the earlier run has left of its limit [s]; ``None`` without a limit.
    """
    return () if left_s is None else ("--limit_s", f"{max(left_s, _LEAST_LIMIT_S):.3f}")


def run_file(folder: Path, index: int) -> Path:
    """Return the file into which a training writes the directory of its run."""
    return folder / "runs" / str(index)


def train_file(folder: Path, index: int) -> Path:
    """Return the file that a node writes just before it starts ``train.py``. Without it, the node failed."""
    return folder / "train" / str(index)


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
        UserError: If the file is missing, is not the one that was submitted, or is of another version.
    """
    try:
        content = read_file(folder / PLAN)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise UserError(
                f"{folder / PLAN} was changed after its submission: restore it; or cancel the job that submission.json "
                "names, and remove the folder"
            )
        return [msgspec.json.decode(line, type=PlannedTraining) for line in content.splitlines()]
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise UserError(
            f"{folder / PLAN} can't be read ({error}): the nodes must see this folder, and have the version of "
            "LedgerLab that has submitted it"
        ) from error
