"""The commands of LedgerLab: ``ledgerlab NAME``, ``python -m ledger_lab NAME`` and ``scripts/NAME.py`` are one program.

A new command is an entry of :data:`COMMANDS` and a script of three lines. Commands are imported when they run.
"""

from __future__ import annotations

import functools
import importlib.util
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn


@dataclass(frozen=True)
class Command:
    """A command."""

    target: str
    """Its function, as ``module:name``; takes the command line without the command's name."""
    help: str
    """What it does, in one line."""
    request: str | None = None
    """Class of its request, as ``module:name``, if the function imports torch and Isaac Lab: ``--help`` and refusals
    then come before these imports. ``None`` for commands that import neither."""


COMMANDS = {
    "train": Command(
        "ledger_lab.training.run:train_run",
        "train a task until a policy is proven to reach its target, and record what it cost",
        "ledger_lab.training.request:TrainRequest",
    ),
    "evaluate": Command(
        "ledger_lab.training.evaluation.run:evaluate_run",
        "score checkpoints on every episode of a held-out panel, in one simulation pass",
        "ledger_lab.training.evaluation.request:EvaluateRequest",
    ),
    "play": Command(
        "ledger_lab.training.checkpoints.play:play_run",
        "play a checkpoint, and record it with --video",
        "ledger_lab.training.checkpoints.request:PlayRequest",
    ),
    "report": Command(
        "ledger_lab.cli.report:build_report",
        "report the cost and the result of every run, as a table, JSON or a page",
    ),
    "watch": Command(
        "ledger_lab.cli.watch:watch",
        "tell what costs money now and what it will cost; the exit status is 3 if something needs attention",
    ),
    "serve": Command("ledger_lab.cli.serve:serve", "show the page of a ledger in a browser, while trainings run"),
    "study": Command(
        "ledger_lab.studies.commands.study:run_study",
        "make all trainings of a study, and report them",
    ),
    "search": Command(
        "ledger_lab.studies.commands.search:run_search",
        "search the recipe that reaches the target in the least time or cost",
    ),
    "list_envs": Command(
        "ledger_lab.cli.list_tasks:list_tasks",
        "list the tasks with their physics and their panels",
        "ledger_lab.cli.request:ListRequest",
    ),
    "new_panel": Command(
        "ledger_lab.training.evaluation.new_panel:new_panel",
        "write a panel file for a registered task, filled from its configuration",
        "ledger_lab.training.evaluation.request:NewPanelRequest",
    ),
    "profile_run": Command(
        "ledger_lab.training.profiling.run:profile_run",
        "time the parts of a task's training iteration",
        "ledger_lab.training.profiling.request:ProfileRequest",
    ),
    "export_policy": Command(
        "ledger_lab.training.checkpoints.export:export_policy",
        "export a policy as TorchScript and ONNX, with the contract that a robot needs to run it",
        "ledger_lab.training.checkpoints.request:ExportRequest",
    ),
    "export": Command(
        "ledger_lab.cli.export:export_ledger",
        "write the ledger for other tools: Parquet, CSV, and the bundles of Isaac Lab's own benchmark",
    ),
    "mirror": Command(
        "ledger_lab.reports.mirrors.program:mirror_run",
        "send a run to TensorBoard, Weights & Biases or MLflow, from its journals",
    ),
    "verify_ledger": Command(
        "ledger_lab.cli.verify:verify_ledger",
        "verify every journal of a ledger; the exit status is 0 if no journal is damaged, else 1",
    ),
    "doctor": Command(
        "ledger_lab.cli.doctor:examine_machine",
        "check whether this machine is fit for trainings",
    ),
}
"""The commands by name, in the order of ``ledgerlab --help``."""


def known_commands() -> dict[str, Command]:
    """Return the commands that are installed: those of a wing are missing without the wing's folder."""
    return {name: command for name, command in COMMANDS.items() if _installed(command)}


def _installed(command: Command) -> bool:
    """Tell whether the room or wing of a command is there; imports nothing but the package itself."""
    return importlib.util.find_spec(".".join(command.target.split(".")[:2])) is not None


def run(name: str) -> NoReturn:
    """Run a command with the arguments in ``sys.argv``, and exit with its status.

    Args:
        name: Name of the command.
    """
    from ledger_lab.reports.terminal.script import run_script

    run_script(functools.partial(_run, name))


def _run(name: str, argv: Sequence[str]) -> Any:  # noqa: ANN401 - an exit status or nothing
    """Run a command; those that import torch and Isaac Lab run in a process of their own."""
    command = COMMANDS[name]
    if command.request is None:
        return pkgutil.resolve_name(command.target)(argv)
    from ledger_lab.cli.first_look import first_look
    from ledger_lab.reports.terminal.script import imported_later
    from ledger_lab.training.supervision.start import run_supervised, run_watched

    first_look(pkgutil.resolve_name(command.request), argv)  # before anything heavy is imported
    program = imported_later(command.target)
    if name == "train":
        _start_elsewhere()
        report = functools.partial(pkgutil.resolve_name, "ledger_lab.training.final_report:print_final_report")
        run_supervised(program, report=report)
    if name == "evaluate":
        run_supervised(program)
    if name == "profile_run" and "--into" in argv:  # Nsight Systems runs this, and does not follow forks
        return program(argv)
    return run_watched(program)


def _start_elsewhere() -> None:
    """Submit the training to a cluster, or become the launcher of several processes, if the command line asks so."""
    from ledger_lab.training.launch.elsewhere import submit_if_asked
    from ledger_lab.training.launch.inline import launch_processes

    submit_if_asked(sys.argv[1:])
    launch_processes()
