"""``python -m ledger_lab.clusters.planned ENGINE FOLDER INDEX SHA256``: carries out one training of a plan.

If an earlier part of the job has made a run with a saved state, the training resumes it. A run without a state is
repeated, in the time that it has left. This process then becomes ``train.py``, or the launcher of its processes, so
that signals and exit statuses pass.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ledger_lab.clusters.engine import Place, load_engine
from ledger_lab.clusters.plans import PlannedTraining, limit_flag, read_plan, read_run_dir, run_file, train_file
from ledger_lab.errors import UserError
from ledger_lab.files import new_file
from ledger_lab.ledger import STATE_FILE, Run, StateSaved, Status
from ledger_lab.ledger.cores import usable_cores
from ledger_lab.ledger.find import find_run
from ledger_lab.ledger.liveness import may_still_write
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.script import run_script
from ledger_lab.training.launch.start import torchrun_argv, torchrun_environ, torchrun_nodes_argv
from ledger_lab.training.launch.world import job_environ

_LOOK_EVERY_S = 5.0


def carry_out(argv: Sequence[str]) -> NoReturn:
    """Become the training.

    Args:
        argv: Name of the engine, folder of the submission, index of the training, and SHA-256 of the plan.

    Raises:
        SystemExit: With status 0 if the run has ended already.
        UserError: If the plan can't be read or was changed, or the training can't be started.
    """
    folder, index = Path(argv[1]).resolve(), int(argv[2])
    train_file(folder, index).unlink(missing_ok=True)  # of an earlier part
    engine = load_engine(argv[0])
    training = read_plan(folder, argv[3])[index]
    place = engine.place(os.environ, index, training.nodes)
    run = _earlier_run(folder, index)
    if run is not None and _has_ended(run):
        make_console().print(f"run {run.run_id} has ended already: nothing is left to do", soft_wrap=True)
        sys.exit(0)
    if run is not None and has_state(run):
        make_console().print(f"part {place.job.restarts + 1} of the job resumes run {run.run_id}", soft_wrap=True)
        command = training_command(training, place, resumed=run.directory)
    else:
        command = training_command(training, place, limit_s=None if run is None else run.limit_left_s)
    environ = {**os.environ, **job_environ(place.job, run_file(folder, index)), **_writable_home(os.environ)}
    if training.nodes > 1 or training.processes > 1:
        environ = torchrun_environ(training.processes, usable_cores(), environ)
    try:
        os.chdir(training.directory)
        new_file(train_file(folder, index), folder).close()
        os.execve(command[0], command, environ)
    except OSError as error:
        raise UserError(
            f"{error.filename or training.directory}: {error.strerror}: the nodes need it as the machine has it that "
            "submitted the training"
        ) from error


def training_command(
    training: PlannedTraining, place: Place, *, resumed: Path | None = None, limit_s: float | None = None
) -> list[str]:
    """Return the command line of a training on one node.

    Args:
        training: The training.
        place: Where it runs.
        resumed: Directory of the run to resume; ``None`` to start a run.
        limit_s: Time that a new run may take, if that is less than the training was planned with [s].
    """
    if resumed is not None:
        arguments = ("--resume", str(resumed), *training.resume)
    else:
        arguments = (*training.start, *limit_flag(limit_s))
    if training.nodes > 1:
        assert place.rendezvous is not None
        return torchrun_nodes_argv(
            training.nodes, training.processes, place.rendezvous, place.rendezvous_id, training.program, arguments
        )
    if training.processes > 1:
        return torchrun_argv(training.processes, training.program, arguments)
    return [sys.executable, training.program, *arguments]


_ENDED = (
    *(Status.COMPLETED, Status.TARGET_REACHED, Status.LIMIT_REACHED),
    *(Status.STOPPED, Status.NON_FINITE, Status.INVALID),
)
"""Statuses of runs that no later part of their job continues: all work was done, or it would end in the same way."""


def _has_ended(run: Run) -> bool:
    """Tell whether a run has done all of its work, has used up its limit, or would end again as it ended."""
    if not run.attempts:
        return False
    left_s = run.limit_left_s
    used_up = left_s is not None and left_s <= 0
    return run.proven or used_up or run.attempts[-1].status in _ENDED


def has_state(run: Run) -> bool:
    """Tell whether a run has saved a state to resume from."""
    return (run.directory / STATE_FILE).is_file() and any(attempt.of(StateSaved) for attempt in run.attempts)


def _earlier_run(folder: Path, index: int) -> Run | None:
    """Return the latest run of the earlier parts of the job, if there is one.

    The engine has ended the earlier part. If its node was lost, the ledger does not show this end, and a node that only
    lost its network may still write. So this function waits until the attempt counts as lost.
    """
    directory = read_run_dir(folder, index)
    if directory is None:
        return None
    run, told = find_run(str(directory), directory), False
    while run.attempts and may_still_write(run.attempts[-1], directory) and not run.proven:
        if not told:
            make_console().print(
                f"run {run.run_id} has no recorded end: waiting until it counts as lost", soft_wrap=True
            )
        told = True
        time.sleep(_LOOK_EVERY_S)
        run = find_run(str(directory), directory)
    return run


def _writable_home(environ: Mapping[str, str]) -> dict[str, str]:
    """Return a home folder for caches if the node has none that this user can write to."""
    home = environ.get("HOME", "")
    if home and os.access(home, os.W_OK):
        return {}
    scratch = tempfile.mkdtemp(prefix="ledger_lab_home_")
    make_console().print(f"HOME={home} can't be written to: using {scratch}", soft_wrap=True)
    return {"HOME": scratch}


if __name__ == "__main__":
    run_script(carry_out)
