"""Hands trainings over to an engine, which runs them on other machines."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from ledger_lab.clusters.engine import Engine, Site, UnclearSubmissionError, load_engine, load_site
from ledger_lab.clusters.plans import PLAN, Plan, PlannedTraining, train_program
from ledger_lab.clusters.submissions import Submission, new_folder, read_submissions
from ledger_lab.errors import UserError
from ledger_lab.names import as_started
from ledger_lab.reports.terminal.console import make_console
from ledger_lab.reports.terminal.request import flag_names
from ledger_lab.tasks.recipes.recipe_file import read_recipe
from ledger_lab.training.launch import requested_processes
from ledger_lab.training.launch.start import Elsewhere
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.requested import requested_dialect, require_known

_SINGLE = "train.py"
"""Name of the submissions of single trainings."""


def submit_single(elsewhere: Elsewhere, arguments: Sequence[str]) -> None:
    """Submit the training of ``train.py --on``.

    Args:
        elsewhere: Where it is to run.
        arguments: Arguments of the training.

    Raises:
        UserError: If it is refused.
    """
    console = make_console()
    engine, site = load_site(elsewhere.on)
    plan = Plan(name=_SINGLE, trainings=(planned_training(site, "training", arguments, nodes=elsewhere.nodes),))
    if elsewhere.dry_run:
        show_files(engine, site, plan, console, new_folder(site.log_root, _SINGLE))
        return
    submission = hand_over(engine, site, plan, new_folder(site.log_root, _SINGLE))
    console.print(
        f"submitted to {site.name} as job {submission.job}",
        f"output: {submission.output(0)}",
        f"cancel: {shlex.join(engine.cancel_command(submission))}",
        as_started(f"report: ./isaaclab.sh -p scripts/report.py --log_root {shlex.quote(str(site.log_root))}"),
        sep="\n",
        soft_wrap=True,
    )


def known_submissions(log_root: Path, name: str) -> list[Submission]:
    """Return the submissions of a name, in order.

    A call may have been interrupted before it noted the id of its job: the job is looked for by its name. A submission
    whose engine knows no such job is removed, so that its trainings are submitted again; but not while its job may
    still appear.

    Args:
        log_root: Root of the ledger.
        name: Name of the study.

    Raises:
        UserError: If a program may still be submitting one of them, or an engine does not answer.
    """
    found = []
    for each in read_submissions(log_root, name):
        engine = load_engine(each.engine)
        left_s = engine.appears_s - each.age_s
        if each.job:
            found.append(each)
        elif job := engine.find(each):
            found.append(each.noted(job))
        elif left_s > 0.0:
            raise UserError(
                f"{each.folder}: another program is submitting this, or was interrupted, and its job may still appear: "
                f"call again in {math.ceil(left_s)} s"
            )
        else:
            each.drop()
    return found


def planned_training(site: Site, what: str, arguments: Sequence[str], *, nodes: int) -> PlannedTraining:
    """Check the arguments of a training, and add what its site sets.

    Args:
        site: Where it will run.
        what: Name of the training within its plan.
        arguments: Arguments of ``train.py``.
        nodes: Machines that it uses.

    Raises:
        UserError: If ``train.py`` would refuse the arguments, or they contradict the site.
    """
    processes, own = requested_processes(arguments)
    gpus = site.gpus_per_node
    if processes is not None and gpus and processes != gpus:
        raise UserError(
            f"--nproc {processes}: cluster {site.name} gives a training {gpus} GPUs per node, one per process: leave "
            "--nproc out, or correct gpus"
        )
    given = TrainRequest.parse(own)
    for name in ("log_root", "grace_s"):
        if name in given.given:
            raise UserError(f"--{name}: cluster {site.name} sets it: leave it out")
    planned = processes or max(1, gpus)
    start = [*own, *site.arguments]
    if site.instance is not None and given.resume is None and (given.instance, given.usd_per_hour) == (None, None):
        start += ["--instance", site.instance]
    if given.recipe is not None and given.resume is None:
        if site.project is None:
            read_recipe(Path(given.recipe), requested_dialect(given).recipe)  # refused before the job waits
        start += ["--recipe", given.recipe]  # absolute: the job may start in another folder
    require_known(TrainRequest.parse(start).named())
    return PlannedTraining(
        what=what,
        start=tuple(start),
        resume=(*_flags_of_each_attempt(given), *site.arguments),
        nodes=nodes,
        processes=planned,
        program=str(site.project / "scripts" / "train.py" if site.project else train_program()),
        directory=str(site.project or os.getcwd()),
    )


def _flags_of_each_attempt(given: TrainRequest) -> list[str]:
    """Return the flags of a request that must be repeated when the job resumes its run."""
    words: list[str] = []
    for name in flag_names(TrainRequest, each_attempt=True):
        value = getattr(given, name)
        if name not in given.given or name == "resume" or (name == "allow_changed_code" and given.resume is None):
            continue
        values = value if isinstance(value, tuple) else (value,)
        words += [f"--{name}"] if value is True else [word for each in values for word in (f"--{name}", str(each))]
    return words


def show_files(engine: Engine, site: Site, plan: Plan, console: Console, folder: Path) -> None:
    """Print the files of a submission, and the command that would submit them."""
    target = ""
    with suppress(UserError):  # this machine need not belong to the cluster
        target = engine.target(site)
    submission = Submission.new(folder, engine.name, site.name, plan, target)
    for name, content in {PLAN: plan.to_lines(), **engine.files(site, plan, submission.job_name)}.items():
        # The console shows a line break within a text as an escape sequence.
        console.print(f"# {folder / name}", *content.rstrip("\n").split("\n"), "", sep="\n", soft_wrap=True)
    command = shlex.join(engine.submit_command(submission))
    console.print(f"cd {shlex.quote(str(folder))} && {command}", soft_wrap=True)


def hand_over(engine: Engine, site: Site, plan: Plan, folder: Path) -> Submission:
    """Write the files of a plan, and submit them.

    Args:
        engine: The engine.
        site: Where it runs.
        plan: The trainings.
        folder: Folder of the submission, from :func:`~ledger_lab.clusters.submissions.new_folder`. Ask for it before
            you decide what is to be submitted; if another program then submits first, this function refuses.

    Returns:
        The submission.

    Raises:
        UserError: If nothing was submitted; or if something was, and could not be noted. Then the message tells how to
            cancel it.
    """
    engine.check(site, plan)
    submission = Submission.new(folder, engine.name, site.name, plan, engine.target(site))
    submission.write(plan, engine.files(site, plan, submission.job_name))
    try:
        job = engine.submit(submission)
    except UnclearSubmissionError:
        raise
    except UserError:
        submission.drop()
        raise
    try:
        return submission.noted(job)
    except OSError as error:
        raise UserError(
            f"job {job} was submitted, but {folder} can't be written to ({error.strerror}): cancel it with "
            f"{shlex.join(engine.cancel_command(replace(submission, job=job)))}"
        ) from error
