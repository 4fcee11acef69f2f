"""This machine: a process in the background makes the trainings of a plan, some at a time."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from ledger_lab.clusters.engine import Engine, Place, Queued, Site, variable
from ledger_lab.clusters.plans import Plan, read_plan
from ledger_lab.clusters.ray_job import ending_with_this_process
from ledger_lab.clusters.submissions import Submission
from ledger_lab.errors import UserError
from ledger_lab.files import appended_file, new_file, whole_file
from ledger_lab.ledger import SchedulerJob
from ledger_lab.ledger.liveness import identify_process
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.exit_status import EXIT_REQUEUE
from ledger_lab.reports.terminal.script import run_script

_SCRIPT = "job.sh"
_JOB_FILE = "job"
"""File with the id of the job, which its process writes."""
_MODULE = "ledger_lab.clusters.local"
"""This module, as Python starts it."""
_JOB = "LEDGER_LAB_LOCAL_JOB"
"""Environment variable with the id of the job."""
_QUEUE_S = "LEDGER_LAB_QUEUE_S"
"""Environment variable with the time from the submission to the start of a training [s]."""
_PLANNED = ("-m", "ledger_lab.clusters.planned", "local")
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, kw_only=True)
class LocalSite(Site):
    """Keys of this machine."""

    log_root: Path = field(default_factory=lambda: Path("logs").resolve())
    """Root of the ledger."""


class Local(Engine):
    """Runs a plan on this machine, in the background."""

    name = "local"
    site = LocalSite
    appears_s = 20.0  # Python starts, and writes the id

    def check(self, site: LocalSite, plan: Plan) -> None:
        """Refuse what can't run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        self.refuse_nodes(plan, "leave --nodes out")

    def files(self, site: LocalSite, plan: Plan, name: str) -> dict[str, str]:
        """Return ``job.sh``; see :class:`~ledger_lab.clusters.engine.Engine`."""
        exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in site.environment.items())
        program = f"{shlex.quote(sys.executable)} -P -m {_MODULE}"
        return {
            _SCRIPT: "#!/bin/bash\n"
            f"# {name}: makes the trainings in plan.jsonl, {plan.at_once or 1} at a time.\n"
            f'{exports}exec {program} "$PWD" {plan.at_once or 1} {plan.sha256}\n'
        }

    def submit_command(self, submission: Submission) -> list[str]:
        """Return the command that submits the files, to run in their folder."""
        return ["bash", _SCRIPT]

    def submit(self, submission: Submission) -> str:
        """Start the process; see :class:`~ledger_lab.clusters.engine.Engine`."""
        folder = submission.folder
        with appended_file(folder / "output" / "job.log", folder) as log:
            process = subprocess.Popen(
                self.submit_command(submission),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return _job_of(process.pid)

    def find(self, submission: Submission) -> str | None:
        """Return the id that the process has written; see :class:`~ledger_lab.clusters.engine.Engine`."""
        try:
            return (submission.folder / _JOB_FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def queued(self, submission: Submission) -> dict[int, Queued]:
        """Return the trainings that wait or run; see :class:`~ledger_lab.clusters.engine.Engine`."""
        if not _is_alive(submission):
            return {}
        found = {}
        for index in range(len(submission.trainings())):
            if submission.exit_status(index) is None:
                runs = (submission.folder / "started" / str(index)).exists()
                found[index] = Queued(runs, "running" if runs else "waiting")
        return found

    def cancel_command(self, submission: Submission) -> list[str]:
        """Return the command that cancels a job."""
        return ["kill", submission.job.split(":")[1]]

    def cancel(self, submission: Submission) -> None:
        """End the process, which ends its trainings; see :class:`~ledger_lab.clusters.engine.Engine`."""
        if _is_alive(submission):
            os.kill(int(submission.job.split(":")[1]), signal.SIGTERM)

    def place(self, environ: Mapping[str, str], index: int, nodes: int) -> Place:
        """Return where this process runs; see :class:`~ledger_lab.clusters.engine.Engine`."""
        return Place(
            job=SchedulerJob(
                engine=self.name,
                job=variable(environ, _JOB),
                index=index,
                restarts=0,
                nodes=[socket.gethostname()],
                queue_s=float(variable(environ, _QUEUE_S)),
            )
        )


def _job_of(pid: int) -> str:
    """Return the id of the job that a process of this machine makes."""
    identity = identify_process(pid)
    return f"{socket.gethostname()}:{pid}:{0 if identity is None else identity.start_ticks}"


def _is_alive(submission: Submission) -> bool:
    """Tell whether the process of a submission still runs.

    Raises:
        UserError: If it is on another machine.
    """
    host, pid, ticks = submission.job.split(":")
    if host != socket.gethostname():
        raise UserError(f"{submission.folder} runs on {host}: ask there")
    identity = identify_process(int(pid))
    return identity is not None and identity.start_ticks == int(ticks)


def make_trainings(argv: Sequence[str]) -> int:
    """Make the trainings of a plan.

    Args:
        argv: Folder of the submission, how many run at the same time, and SHA-256 of the plan.

    Returns:
        0, or 75 if a signal has ended it.
    """
    folder, at_once, plan_sha256 = Path(argv[0]), int(argv[1]), argv[2]
    submitted, job = time.monotonic(), _job_of(os.getpid())
    with whole_file(folder / _JOB_FILE, root=folder) as path:
        path.write_text(job, encoding="utf-8")
    waiting = list(range(len(read_plan(folder, plan_sha256))))
    running: dict[int, subprocess.Popen[bytes]] = {}
    asked: list[int] = []
    said: set[str] = set()

    def pass_on(signum: int, _: FrameType | None) -> None:
        asked.append(signum)
        for process in running.values():
            process.send_signal(signum)

    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, pass_on)
    while running or (waiting and not asked):
        while waiting and len(running) < at_once and not asked:
            queue_s = time.monotonic() - submitted
            try:
                running[waiting[0]] = _start(folder, waiting[0], plan_sha256, {_JOB: job, _QUEUE_S: f"{queue_s:.3f}"})
            except OSError as error:  # a full disk must not end the other trainings: tried again
                if str(error) not in said:
                    text = f"training {waiting[0]} cannot start yet: {error}"
                    make_console(sys.stderr).print(text, markup=False, soft_wrap=True)
                said.add(str(error))
                break
            index = waiting.pop(0)
            if asked:  # the signal came while the process was being started
                running[index].send_signal(asked[-1])
        time.sleep(_LOOK_EVERY_S)
        for index, process in [*running.items()]:
            if (status := process.poll()) is not None:
                with suppress(OSError), whole_file(folder / "exits" / str(index), root=folder) as path:
                    path.write_text(f"{128 - status if status < 0 else status}\n")
                del running[index]
    return EXIT_REQUEUE if asked else 0


def _start(folder: Path, index: int, plan_sha256: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a training, which ends with this process: nobody else could cancel it.

    Raises:
        OSError: If it can't be started now.
    """
    started = folder / "started" / str(index)
    new_file(started, folder).close()
    try:
        with appended_file(folder / "output" / f"{index}.log", folder) as log:
            return subprocess.Popen(
                [*ending_with_this_process(), sys.executable, "-P", *_PLANNED, str(folder), str(index), plan_sha256],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environ},
            )
    except OSError:
        started.unlink(missing_ok=True)  # it still waits
        raise


ENGINE = Local()

if __name__ == "__main__":
    run_script(make_trainings)
