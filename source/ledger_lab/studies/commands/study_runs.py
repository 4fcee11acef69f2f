"""The runs of a study in the ledger, and how its other trainings start or resume."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from ledger_lab.clusters.plans import limit_flag
from ledger_lab.files import NoLocksError, file_lock, make_folder
from ledger_lab.ledger import STATE_FILE, Run, StateSaved
from ledger_lab.ledger.find import read_runs
from ledger_lab.studies.declared import Study, Training, runs_made_by

_FOLDER = "studies"
"""Folder of the locks of trainings, below the root of the ledger."""


def runs_of(study: Study, log_root: Path) -> list[Run]:
    """Return the runs of a study in the ledger."""
    cohorts = {arm.cohort for arm in study.arms}
    return [run for run in read_runs(log_root) if run.declared.cohort in cohorts and run.attempts]


def resumable_run(training: Training, runs: Sequence[Run]) -> Run | None:
    """Return the latest run of a training with a saved state to resume from, if there is one."""
    left = [run for run in runs_made_by(training, runs) if has_state(run)]
    return left[-1] if left else None


def has_state(run: Run) -> bool:
    """Tell whether a run has a saved state to resume from."""
    return (run.directory / STATE_FILE).is_file() and any(attempt.of(StateSaved) for attempt in run.attempts)


@contextmanager
def making(training: Training, log_root: Path, console: Console) -> Iterator[Sequence[int] | None]:
    """Keep other programs from starting a training until the context ends, if the file system has locks.

    The ledger shows a training only when it has declared its run, seconds after its start. If this program is killed
    before, the training goes on. It has inherited the lock, so it is not started twice.

    Args:
        training: The training.
        log_root: Root of the ledger.
        console: Where to warn if there are no locks.

    Yields:
        Descriptors that the training must inherit; ``None`` if another program makes the training.

    Raises:
        UserError: If the root can't be written to.
    """
    lock = _lock(training, log_root)
    make_folder(log_root.resolve())
    make_folder(lock.parent, root=log_root.resolve())
    with ExitStack() as stack:
        kept: Sequence[int] | None = ()
        try:
            descriptor, is_locked = stack.enter_context(file_lock(lock))
            kept = (descriptor,) if is_locked else None
        except NoLocksError as error:
            console.print(f"{error}; without locks, if this program is killed, end its training, too", soft_wrap=True)
        yield kept


def _lock(training: Training, log_root: Path) -> Path:
    """Return the file that the program locks that makes a training."""
    return log_root.resolve() / _FOLDER / training.arm.cohort / f"{training.seed}.lock"


def is_being_trained(training: Training, log_root: Path) -> bool:
    """Tell whether a program on this machine makes a training now; without locks in the file system, it is unknown."""
    lock = _lock(training, log_root)
    if not lock.exists():
        return False
    try:
        with file_lock(lock) as (_, is_locked):
            return not is_locked
    except NoLocksError:
        return False


def train_arguments(training: Training, study: Study, runs: Sequence[Run], extra: Sequence[str]) -> list[str]:
    """Return the arguments of ``train.py`` that start, resume or repeat a training.

    A run that was interrupted before it saved a state is repeated, in the time that it has left.

    Args:
        training: The training.
        study: Its study.
        runs: Runs of the study.
        extra: Further arguments of all trainings.
    """
    asked = [*training.arm.arguments, *extra]
    if interrupted := resumable_run(training, runs):
        return ["--resume", interrupted.declared.run_id, *repeated_flags(asked)]
    asked += ["--seed", str(training.seed), "--cohort", training.arm.cohort, "--cohort_size", str(len(study.seeds))]
    repeated = runs_made_by(training, runs)
    return [*asked, *limit_flag(repeated[-1].limit_left_s if repeated else None)]


def repeated_flags(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that a resumed run does not take from its declaration, and that must be given again."""
    parser = argparse.ArgumentParser(add_help=False)
    for repeated in ("--nproc", "--cpu_threads", "--mirror", "--grace_s"):
        parser.add_argument(repeated, action="append", default=[])
    said, others = parser.parse_known_args(list(arguments))
    switches = [each for each in ("--allow_public_address",) if each in others]
    return [
        *(each for name, values in vars(said).items() for value in values for each in (f"--{name}", value)),
        *switches,
    ]
