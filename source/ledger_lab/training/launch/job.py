"""What a training knows of the job that it runs in, through environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ledger_lab.errors import UserError
from ledger_lab.files import whole_file
from ledger_lab.ledger import SchedulerJob
from ledger_lab.ledger.meters import part_environ

_JOB = "LEDGER_LAB_JOB"
"""Environment variable with the job as JSON."""
_RUN_FILE = "LEDGER_LAB_RUN_FILE"
"""Environment variable with the file into which the training writes the directory of its run."""


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
