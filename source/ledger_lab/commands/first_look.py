"""What programs refuse before they import torch or Isaac Lab, which takes much longer than the refusal."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

from ledger_lab.checkpoints.shipped import named_checkpoints
from ledger_lab.costs import load_price_book, resolve_price
from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import find_journals
from ledger_lab.ledger.find import find_run
from ledger_lab.mirrors.start import require_mirrors
from ledger_lab.panels import load_panel
from ledger_lab.pretrained import shipped_tasks
from ledger_lab.recipes import RECIPES
from ledger_lab.runners.adapter import require_library
from ledger_lab.terminal.console import tell_error
from ledger_lab.terminal.flags import LAUNCHER_FLAGS, answer_help

type Check = Callable[[argparse.Namespace], None]

_COUNTS = ("num_envs", "max_iterations", "eval_every", "cohort_size", "video", "seeds", "warm_up", "iterations")
"""Flags whose numbers must be at least 1."""
_ROOTS = ("env", "agent", "physics", "renderer", "presets")
"""What an override begins with."""


def first_look(
    make_parser: Callable[[], argparse.ArgumentParser],
    argv: Sequence[str],
    *,
    launcher: bool,
    overrides: bool = False,
    check: Check | None = None,
) -> None:
    """Answer a request for help, and refuse what the command line and the disk alone show to be wrong.

    The programs check everything again, with the task at hand. Of several processes, all refuse together, later.

    Args:
        make_parser: Makes the parser of the program.
        argv: Command line without the name of the program.
        launcher: Whether the program takes the flags of Isaac Lab's launcher.
        overrides: Whether the program takes Hydra overrides.
        check: A further check of the parsed command line.

    Raises:
        SystemExit: With status 0 after help, with status 2 after a refusal.
    """
    answer_help(make_parser, argv, launcher=launcher)
    if {"-h", "--help"} & {*argv} or os.environ.get("WORLD_SIZE", "1") != "1":
        return
    try:
        args = _parsed(make_parser(), argv, launcher, overrides)
        _check_values(args)
        if check is not None:
            check(args)
        _check_runs(args)
    except UserError as error:
        sys.exit(tell_error(error))


def _parsed(
    parser: argparse.ArgumentParser, argv: Sequence[str], launcher: bool, overrides: bool
) -> argparse.Namespace:
    """Parse a command line; refuse unknown arguments, and values that don't fit."""

    def refuse(message: str) -> NoReturn:
        raise UserError(f"{message}; see --help")

    parser.error = refuse  # type: ignore[method-assign]
    for flags, metavar, _ in LAUNCHER_FLAGS if launcher else ():
        parser.add_argument(*flags, action="store_true" if metavar is None else "store")
    if not overrides:
        return parser.parse_intermixed_args(list(argv))
    args, rest = parser.parse_known_args(list(argv))
    for argument in rest:
        key, equals, _ = argument.partition("=")
        if not equals or key.startswith("-"):
            raise UserError(
                f"unknown argument {argument!r}: see --help; overrides read env.PATH=VALUE or agent.PATH=VALUE"
            )
        if key.partition(".")[0] not in _ROOTS:
            raise UserError(f"override {argument!r} matches nothing: {nearest(key.partition('.')[0], _ROOTS)}")
    return args


def _check_values(args: argparse.Namespace) -> None:
    """Refuse values that no task makes right."""
    given = {name: value for name, value in vars(args).items() if value is not None}
    for name in _COUNTS:
        if (count := given.get(name)) is not None and not isinstance(count, bool) and count < 1:
            raise UserError(f"--{name} {count}: must be at least 1")
    if "target" in given and not 0 < args.target <= 1:
        raise UserError(f"--target {args.target}: must lie above 0 and not above 1")
    if "rl_library" in given:
        require_library(args.rl_library)
    if "panel" in given:
        load_panel(args.panel)
    require_mirrors(given.get("mirror", ()))
    if "resume" in given:
        return  # what was declared is read from the ledger
    if "task" in given and "pretrained" not in given:
        _require_task(args.task)
    if "log_root" in given and "cohort_size" in vars(args):
        resolve_price(args.instance, args.usd_per_hour, load_price_book(args.prices), today=datetime.date.today())


def _require_task(task: str) -> None:
    """Refuse an unknown task, where no further package can register it."""
    if task in RECIPES or any(entry.module != "ledger_lab.tasks" for entry in entry_points(group="isaaclab.tasks")):
        return
    known = {*RECIPES, *stock_tasks()}
    if task not in known:
        raise UserError(f"unknown task {task!r}: {nearest(task, known)} (scripts/list_envs.py lists them)")


def stock_tasks() -> set[str]:
    """Return the ids of Isaac Lab's own tasks, read from the text of its package, whose import takes seconds."""
    spec = importlib.util.find_spec("isaaclab_tasks")
    roots = [] if spec is None else spec.submodule_search_locations or []
    files = (path for root in roots for path in Path(root).rglob("__init__.py"))
    return {task for file in files for task in re.findall(r'\bid="([^"]+)"', file.read_text(encoding="utf-8"))}


def _check_runs(args: argparse.Namespace) -> None:
    """Refuse runs and checkpoints that don't exist."""
    given = {name: value for name, value in vars(args).items() if value is not None}
    names = [given[name] for name in ("run", "resume", "versus", "checkpoint") if name in given]
    if "pretrained" in given:
        named = [*given.get("checkpoints", ()), *names]
        if not any("=" in name for name in named):  # an override may stand where a run would
            names = named_checkpoints(args, named)
    for name in names:
        if "=" not in name and name not in shipped_tasks():
            _require_run(name, args.log_root)


def _require_run(name: str, log_root: Path) -> None:
    """Refuse a name that is neither a path nor the beginning of a run's id."""
    directories = {journal.parent for journal in find_journals(log_root)}
    if not Path(name).exists() and not any(each.name.rpartition("_")[2].startswith(name) for each in directories):
        find_run(name, log_root)
