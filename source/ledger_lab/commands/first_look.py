"""Checks of a command line before torch and Isaac Lab are imported, so that a refusal is fast."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn

from ledger_lab.checkpoints.shipped import named_checkpoint, named_checkpoints
from ledger_lab.costs import load_price_book, resolve_price
from ledger_lab.errors import UserError, as_user_error, nearest
from ledger_lab.ledger import find_journals
from ledger_lab.ledger.find import find_run
from ledger_lab.mirrors.start import require_mirrors
from ledger_lab.panels import load_panel
from ledger_lab.pretrained import shipped_tasks
from ledger_lab.recipes import RECIPES
from ledger_lab.runners.adapter import require_library
from ledger_lab.terminal.console import tell_error
from ledger_lab.terminal.flags import LAUNCHER_FLAGS, answer_help
from ledger_lab.terminal.request import SimulationRequest, as_given, flag_names
from ledger_lab.terminal.surroundings import accept_surroundings

_ROOTS = ("env", "agent", "physics", "renderer", "presets")
"""First words of overrides."""


def first_look[R: SimulationRequest](
    make_parser: Callable[[], argparse.ArgumentParser],
    argv: Sequence[str],
    request: type[R] | None = None,
    check: Callable[[R], None] | None = None,
) -> None:
    """Answer ``--help``, and refuse errors that show in the command line and on the disk.

    The program later repeats the checks with the task's configuration; several processes skip the early ones.

    Args:
        make_parser: Makes the parser of the program.
        argv: Command line without the name of the program.
        request: Type of the program's request, if it opens a simulation.
        check: A further check of the request.

    Raises:
        SystemExit: With status 0 after the help, or with status 2 after a refusal.
    """
    accept_surroundings()
    answer_help(make_parser, argv, launcher=request is not None)
    if {"-h", "--help"} & {*argv} or os.environ.get("WORLD_SIZE", "1") != "1":
        return
    try:
        if request is None:
            asked: argparse.Namespace | R = _parsed(make_parser(), argv)
        else:
            asked = _requested(make_parser(), argv, request)
            if check is not None:
                check(asked)
        _check_values(asked)
        _check_runs(asked)
    except (UserError, OSError, ValueError, RuntimeError) as error:
        if as_user_error(error) is None:
            raise
        sys.exit(tell_error(error))


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; refuse unknown arguments and values of the wrong type."""
    _refuse_in_one_line(parser)
    return parser.parse_intermixed_args(list(argv))


def _requested[R: SimulationRequest](parser: argparse.ArgumentParser, argv: Sequence[str], request: type[R]) -> R:
    """Parse a command line into a request; refuse unknown arguments, values of the wrong type and bad requests."""
    _refuse_in_one_line(parser)
    for flags, metavar, _ in LAUNCHER_FLAGS:
        parser.add_argument(*flags, action="store_true" if metavar is None else "store")
    if "overrides" in {each.name for each in fields(request)}:
        parsed, overrides = parser.parse_known_args(list(argv))
        extra = {"overrides": tuple(_known_override(override) for override in overrides)}
    else:
        parsed, extra = parser.parse_intermixed_args(list(argv)), {}
    values = vars(parsed)
    own = {name: values.pop(name) for name in flag_names(request) if name in values}
    own.pop("nproc", None)  # a flag of the launcher, not of the request
    return request(**as_given(own), **extra, device=values.pop("device"), launcher=values, given=(*own,))


def _refuse_in_one_line(parser: argparse.ArgumentParser) -> None:
    """Make a parser raise a ``UserError`` of one line."""

    def refuse(message: str) -> NoReturn:
        raise UserError(f"{message}; see --help")

    parser.error = refuse  # type: ignore[method-assign]


def _known_override(argument: str) -> str:
    """Return an argument if it can be an override; else refuse it."""
    key, equals, _ = argument.partition("=")
    if not equals or key.startswith("-"):
        raise UserError(f"unknown argument {argument!r}: see --help; overrides read env.PATH=VALUE or agent.PATH=VALUE")
    if key.partition(".")[0] not in _ROOTS:
        raise UserError(f"override {argument!r} matches nothing: {nearest(key.partition('.')[0], _ROOTS)}")
    return argument


def _check_values(asked: object) -> None:
    """Refuse values that are invalid for every task."""
    given = _given(asked)
    if given.get("seeds", 1) < 1:
        raise UserError(f"--seeds {given['seeds']}: must be at least 1")
    if "target" in given and not 0 < given["target"] <= 1:
        raise UserError(f"--target {given['target']}: must lie above 0 and not above 1")
    if "rl_library" in given:
        require_library(given["rl_library"])
    if "panel" in given:
        load_panel(given["panel"])
    require_mirrors(given.get("mirror", ()))
    if "resume" in given:
        return  # task and prices come from the declaration
    if "task" in given and "pretrained" not in given:
        _require_task(given["task"])
    if hasattr(asked, "usd_per_hour"):
        price_book = load_price_book(given.get("prices"))
        today = datetime.date.today()
        resolve_price(given.get("instance"), given.get("usd_per_hour"), price_book, today=today)


def _given(asked: object) -> dict[str, Any]:
    """Return the fields of a request that are set."""
    return {name: value for name, value in vars(asked).items() if value is not None}


def _require_task(task: str) -> None:
    """Refuse an unknown task, unless another installed package may register it."""
    if task in RECIPES or any(entry.module != "ledger_lab.tasks" for entry in entry_points(group="isaaclab.tasks")):
        return
    known = {*RECIPES, *stock_tasks()}
    if task not in known:
        raise UserError(f"unknown task {task!r}: {nearest(task, known)} (scripts/list_envs.py lists them)")


def stock_tasks() -> set[str]:
    """Return the ids of Isaac Lab's own tasks from the text of its package, because its import takes seconds."""
    spec = importlib.util.find_spec("isaaclab_tasks")
    roots = [] if spec is None else spec.submodule_search_locations or []
    files = (path for root in roots for path in Path(root).rglob("__init__.py"))
    return {task for file in files for task in re.findall(r'\bid="([^"]+)"', file.read_text(encoding="utf-8"))}


def _check_runs(asked: object) -> None:
    """Refuse runs and checkpoints that don't exist."""
    given = _given(asked)
    names = [given[name] for name in ("run", "resume", "versus", "checkpoint") if name in given]
    if "pretrained" in given:
        choice = {"pretrained": given["pretrained"], "task": given.get("task")}
        if hasattr(asked, "checkpoints"):
            names = named_checkpoints([*asked.checkpoints, *names], **choice)
        else:
            names = [named_checkpoint(given.get("checkpoint"), **choice)]
    for name in names:
        if name not in shipped_tasks():
            _require_run(name, given["log_root"])


def _require_run(name: str, log_root: Path) -> None:
    """Refuse a name that is neither a path nor the beginning of a run's id."""
    directories = {journal.parent for journal in find_journals(log_root)}
    if not Path(name).exists() and not any(each.name.rpartition("_")[2].startswith(name) for each in directories):
        find_run(name, log_root)
