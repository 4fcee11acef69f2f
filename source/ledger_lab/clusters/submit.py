"""Hands trainings over to an engine, which runs them on other machines."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ledger_lab.cli.first_look import require_known
from ledger_lab.clusters.drafts import Draft, draft_submission, drop_draft, note_submission, read_drafts, write_folder
from ledger_lab.clusters.elsewhere import Elsewhere, requested_elsewhere
from ledger_lab.clusters.engine import Engine, Site, UnclearSubmissionError, load_engine, load_site
from ledger_lab.clusters.plans import PLAN, Plan, PlannedTraining
from ledger_lab.clusters.programs import programs_in
from ledger_lab.clusters.submission_folders import new_folder
from ledger_lab.clusters.submissions import Submission
from ledger_lab.errors import UserError, as_user_error
from ledger_lab.reports.terminal.console import make_console, tell_error
from ledger_lab.reports.terminal.request import flag_names
from ledger_lab.tasks.recipes.recipe_file import read_recipe
from ledger_lab.training.launch import requested_processes
from ledger_lab.training.recipe import requested_dialect
from ledger_lab.training.request import TrainRequest

_SINGLE = "train.py"
"""Name of the submissions of single trainings."""


def submit_if_asked(argv: Sequence[str]) -> None:
    """Submit the training of ``train.py --on``, and end the program; without ``--on``, return.

    Args:
        argv: Command line without the program's name.

    Raises:
        SystemExit: After the submission, or with status 2 if it is refused.
    """
    try:
        elsewhere, arguments = requested_elsewhere(argv)
        if elsewhere is None:
            return
        _submit_single(elsewhere, arguments)
    except (UserError, OSError) as error:
        if as_user_error(error) is None:
            raise
        sys.exit(tell_error(error))
    sys.exit(0)


def _submit_single(elsewhere: Elsewhere, arguments: Sequence[str]) -> None:
    """Submit one training."""
    console = make_console()
    engine, site = load_site(elsewhere.on)
    plan = Plan(name=_SINGLE, trainings=(planned_training(site, "training", arguments, nodes=elsewhere.nodes),))
    if elsewhere.dry_run:
        show_files(engine, site, plan, console, new_folder(site.log_root, _SINGLE))
        return
    _tell_of_interrupted_calls(site)
    submission = hand_over(engine, site, plan, new_folder(site.log_root, _SINGLE))
    console.print(
        f"submitted to {site.name} as job {submission.job}",
        f"output: {submission.output(0)}",
        f"cancel: {shlex.join(engine.cancel_command(submission.job))}",
        f"report: ./isaaclab.sh -p scripts/report.py --log_root {shlex.quote(str(site.log_root))}",
        sep="\n",
        soft_wrap=True,
    )


def _tell_of_interrupted_calls(site: Site) -> None:
    """Complete the submissions of earlier calls, and refuse to submit more if one of them had submitted a job.

    The user may call again because the first call seemed to fail. Other programs may be submitting other trainings.

    Raises:
        UserError: If there is such a job; the next call submits.
    """
    abandoned = [draft for draft in read_drafts(site.log_root, _SINGLE) if draft.is_abandoned]
    if found := complete_drafts(abandoned):
        told = [
            f"{each.job} (cancel: {shlex.join(load_engine(each.engine).cancel_command(each.job))}; output: "
            f"{each.output(0)})"
            for each in found
        ]
        raise UserError(
            f"an earlier call was interrupted, and had submitted job {', '.join(told)}: call again to submit this "
            "training as well"
        )


def complete_drafts(drafts: Sequence[Draft]) -> list[Submission]:
    """Complete the submissions of calls that were interrupted before they noted the id of their job.

    A submission whose engine knows no job of its name is removed, so that its trainings are submitted again; but not
    while its job may still appear.

    Args:
        drafts: The submissions.

    Returns:
        Those that have a job.

    Raises:
        UserError: If a program is still submitting one of them, or an engine does not answer.
    """
    found = []
    for draft in drafts:
        if not draft.is_abandoned:
            raise UserError(f"{draft.folder}: another program is submitting this: call again when it has ended")
        engine = load_engine(draft.engine)
        job = engine.find(draft.folder)
        if job is None:
            _require_settled(draft, engine)
            drop_draft(draft)
        else:
            found.append(note_submission(draft, job))
    return found


def _require_settled(draft: Draft, engine: Engine) -> None:
    """Refuse to go on while the job of an interrupted call may still appear: it would be submitted twice.

    Raises:
        UserError: If a program that the call has started still runs, or the engine may take more time.
    """
    if working := programs_in(draft.folder):
        raise UserError(
            f"{draft.folder}: an earlier call was interrupted, and process {min(working)} still works in this folder: "
            "call again when it has ended"
        )
    left_s = engine.appears_s - draft.age_s
    if left_s > 0.0:
        raise UserError(
            f"{draft.folder}: an earlier call was interrupted, and its job may still appear: call again in "
            f"{math.ceil(left_s / 60.0)} min"
        )


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
    begins_several = planned * nodes > 1 and given.resume is None
    if begins_several and (dialect := requested_dialect(given)).one_process_reason is not None:
        if nodes > 1:
            way_out = "train on one machine (--nodes, or nodes in a study)"
        elif gpus > 1:
            way_out = f"use a cluster with gpus = 1 ({site.name} has {gpus})"
        else:
            way_out = "leave --nproc out"
        raise UserError(
            f"{dialect.learner} trains in one process only, and with one GPU, "
            f"{dialect.one_process_reason}: {way_out}, or use --rl_library skrl"
        )
    if given.resume is None:
        given.require_saveable_replay(planned * nodes)
    overlap = next((each for each in given.overrides if each.lower() == "agent.overlap=true"), None)
    if begins_several and overlap is not None:
        raise UserError(
            f"{overlap}: this training has {planned * nodes} processes, which exchange gradients, and LedgerLab does "
            "not do that beside the simulation: leave it out, or train in one process"
        )
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
        program=str((site.project or Path(sys.argv[0]).resolve().parents[1]) / "scripts" / "train.py"),
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
    draft = draft_submission(folder, engine.name, site.name, plan)
    for name, content in _files(engine, site, plan, draft).items():
        # The console shows a line break within a text as an escape sequence.
        console.print(f"# {folder / name}", *content.rstrip("\n").split("\n"), "", sep="\n", soft_wrap=True)
    command = shlex.join(engine.submit_command(folder))
    console.print(f"cd {shlex.quote(str(folder))} && {command}", soft_wrap=True)


def hand_over(engine: Engine, site: Site, plan: Plan, folder: Path) -> Submission:
    """Write the files of a plan, and submit them.

    Args:
        engine: The engine.
        site: Where it runs.
        plan: The trainings.
        folder: Folder of the submission, from :func:`~ledger_lab.clusters.submission_folders.new_folder`. Ask for it
            before you decide what is to be submitted; if another program then submits first, this function refuses.

    Returns:
        The submission.

    Raises:
        UserError: If nothing was submitted; or if something was, and could not be noted. Then the message tells how to
            cancel it.
    """
    engine.check(site, plan)
    draft = draft_submission(folder, engine.name, site.name, plan, cluster=engine.cluster())
    write_folder(draft, _files(engine, site, plan, draft))
    try:
        job = engine.submit(folder)
    except UnclearSubmissionError:
        raise
    except UserError:
        drop_draft(draft)
        raise
    try:
        return note_submission(draft, job)
    except OSError as error:
        raise UserError(
            f"job {job} was submitted, but {folder} can't be written to ({error.strerror}): cancel it with "
            f"{shlex.join(engine.cancel_command(job))}"
        ) from error


def _files(engine: Engine, site: Site, plan: Plan, draft: Draft) -> dict[str, str]:
    """Return the content of all files of a submission, by name."""
    return {PLAN: plan.to_lines(), **engine.files(site, plan, draft.job_name)}
