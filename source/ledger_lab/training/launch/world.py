"""What environment variables tell a training: its processes, and the job that it runs in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger import SchedulerJob
from ledger_lab.ledger.meters.process import part_environ

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that torchrun sets for each process."""

STORE = "LEDGER_LAB_STORE"
"""Environment variable with the file through which the processes of one machine find each other."""

_JOB = "LEDGER_LAB_JOB"
"""Environment variable with the job as JSON."""
_RUN_FILE = "LEDGER_LAB_RUN_FILE"
"""Environment variable with the file into which the training writes the directory of its run."""


@dataclass(frozen=True, kw_only=True)
class World:
    """The processes of a training, and the rank of this process. By default, there is one process."""

    rank: int = 0
    """Rank of this process, counted from 0."""
    size: int = 1
    """Number of all processes."""
    local_rank: int = 0
    """Rank of this process on its machine, counted from 0."""
    local_size: int = 1
    """Number of processes on its machine."""

    def __post_init__(self) -> None:
        """Refuse ranks that are out of range.

        Raises:
            ValueError: If a number is out of range.
        """
        if not (0 <= self.local_rank < self.local_size <= self.size and self.local_rank <= self.rank < self.size):
            raise ValueError(
                f"RANK {self.rank} of WORLD_SIZE {self.size} and LOCAL_RANK {self.local_rank} of LOCAL_WORLD_SIZE "
                f"{self.local_size} contradict each other"
            )

    @property
    def first(self) -> bool:
        """Whether this is the process that decides and reports."""
        return self.rank == 0

    @property
    def machines(self) -> int:
        """Number of machines. All have the same number of processes, except the last machine, which may have fewer."""
        return -(-self.size // self.local_size)

    @property
    def one_machine(self) -> bool:
        """Whether all processes are on this machine."""
        return self.machines == 1


def read_world(environ: Mapping[str, str], *, distributed: bool) -> World:
    """Return the processes that the environment variables describe.

    Args:
        environ: The environment.
        distributed: Whether ``--distributed`` was given.

    Raises:
        UserError: If flag and environment contradict each other.
    """
    if not distributed:
        if environ.get("WORLD_SIZE", "1") != "1":
            raise UserError(
                f"WORLD_SIZE is {environ['WORLD_SIZE']}: pass --distributed to train in that many processes, or "
                "unset it"
            )
        return World()
    missing = [name for name in _VARIABLES if not environ.get(name)]
    if missing:
        raise UserError(
            f"--distributed: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set: start with torchrun, "
            "which sets them, or use --nproc N instead"
        )
    try:
        rank, size, local_rank, local_size = (int(environ[name]) for name in _VARIABLES[:4])
        return World(rank=rank, size=size, local_rank=local_rank, local_size=local_size)
    except ValueError as error:
        raise UserError(f"--distributed: {error}: let torchrun set them") from error


def job_environ(job: SchedulerJob, run_file: Path) -> dict[str, str]:
    """Return the environment variables that tell a training about its job.

    The attempt is measured from the start of this program: it may wait, and it may start launchers of processes.

    Args:
        job: The job.
        run_file: File for the directory of the run.
    """
    return {
        _JOB: msgspec.json.encode(job).decode(),
        _RUN_FILE: str(run_file),
        **part_environ(),
    }


def read_job(environ: Mapping[str, str]) -> SchedulerJob | None:
    """Return the job that this process runs in; ``None`` outside a job.

    Args:
        environ: The environment.

    Raises:
        UserError: If the variable is damaged.
    """
    if _JOB not in environ:
        return None
    try:
        return msgspec.json.decode(environ[_JOB], type=SchedulerJob)
    except msgspec.MsgspecError as error:
        raise UserError(f"{_JOB}: {error}: unset it, because LedgerLab sets it within jobs") from error


def note_run(environ: Mapping[str, str], run_dir: Path) -> None:
    """Write the directory of the run where the next part of the job finds it; outside a job, do nothing.

    Args:
        environ: The environment.
        run_dir: The directory.
    """
    if _RUN_FILE in environ:
        with whole_file(Path(environ[_RUN_FILE])) as path:
            path.write_text(str(run_dir.resolve()), encoding="utf-8")
