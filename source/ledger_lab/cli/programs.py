"""The commands of LedgerLab: ``ledgerlab NAME``, ``python -m ledger_lab NAME`` and ``scripts/NAME.py`` are one program.

A new command is an entry of :data:`COMMANDS` and a script of three lines. Commands are imported when they run.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True)
class Command:
    """A command. The docstring of its script says what it does."""

    target: str
    """Its function, as ``module:name``; takes the command line without the command's name."""
    request: str | None = None
    """Class of its request, as ``module:name``, if the function imports torch and Isaac Lab: ``--help`` and refusals
    then come before these imports. ``None`` for commands that import neither."""


COMMANDS = {
    "train": Command("ledger_lab.training.run:train_run", "ledger_lab.training.request:TrainRequest"),
    "evaluate": Command(
        "ledger_lab.training.evaluation.run:evaluate_run", "ledger_lab.training.evaluation.request:EvaluateRequest"
    ),
    "play": Command(
        "ledger_lab.training.checkpoints.play:play_run", "ledger_lab.training.checkpoints.request:PlayRequest"
    ),
    "report": Command("ledger_lab.cli.report:build_report"),
    "watch": Command("ledger_lab.cli.watch:watch"),
    "serve": Command("ledger_lab.cli.serve:serve"),
    "study": Command("ledger_lab.studies.commands.study:run_study"),
    "search": Command("ledger_lab.studies.commands.search:run_search"),
    "list_envs": Command("ledger_lab.cli.list_tasks:list_tasks"),
    "new_panel": Command(
        "ledger_lab.training.evaluation.new_panel:new_panel", "ledger_lab.training.evaluation.request:NewPanelRequest"
    ),
    "profile_run": Command(
        "ledger_lab.training.profiling.run:profile_run", "ledger_lab.training.profiling.request:ProfileRequest"
    ),
    "export_policy": Command(
        "ledger_lab.training.checkpoints.export:export_policy", "ledger_lab.training.checkpoints.request:ExportRequest"
    ),
    "export": Command("ledger_lab.cli.export:export_ledger"),
    "log_run": Command("ledger_lab.reports.loggers.program:log_run"),
    "verify_ledger": Command("ledger_lab.cli.verify:verify_ledger"),
    "doctor": Command("ledger_lab.cli.doctor:examine_machine"),
}
"""The commands by name, in the order of ``ledgerlab --help``."""


def known_commands() -> dict[str, Command]:
    """Return the commands that are installed: those of a wing are missing without the wing's folder."""
    return {name: command for name, command in COMMANDS.items() if _installed(command)}


def what_it_does(name: str) -> str:
    """Return what a command does, in one line.

    Args:
        name: Name of the command.
    """
    script = (Path(__file__).parent / "scripts" / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(script)) or "").rstrip(".")


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
    from ledger_lab.training.launch.start import launch_processes, submit_if_asked
    from ledger_lab.training.supervision.start import run_supervised, run_watched

    first_look(pkgutil.resolve_name(command.request), argv)  # before anything heavy is imported
    program = imported_later(command.target)
    if name == "train":
        submit_if_asked(sys.argv[1:])
        launch_processes()
        report = "ledger_lab.training.final_report:print_final_report"
        run_supervised(program, report=lambda run_dir: pkgutil.resolve_name(report)(run_dir))
    if name == "evaluate":
        run_supervised(program)
    if name == "profile_run" and "--nsys" in argv:  # Nsight Systems does not follow forks
        return program(argv)
    return run_watched(program)
