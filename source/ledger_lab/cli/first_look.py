"""Checks of a command line before torch and Isaac Lab are imported, so that a refusal is fast."""

from __future__ import annotations

import datetime
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from ledger_lab.clusters.elsewhere import requested_elsewhere
from ledger_lab.errors import UserError, as_user_error, nearest
from ledger_lab.ledger import find_journals
from ledger_lab.ledger.costs import load_price_book, resolve_price
from ledger_lab.ledger.find import find_run
from ledger_lab.ledger.libraries import require_library
from ledger_lab.panels import load_panel
from ledger_lab.reports.mirrors.start import require_mirrors
from ledger_lab.reports.terminal.console import tell_error
from ledger_lab.reports.terminal.request import Named, Request, flag_names, print_help
from ledger_lab.reports.terminal.surroundings import accept_surroundings
from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.pretrained import shipped_tasks
from ledger_lab.training.launch import requested_processes


def first_look(request: type[Request], argv: Sequence[str]) -> None:
    """Answer ``--help``, and refuse errors that show in the command line and on the disk.

    The program later repeats the checks with the task's configuration; several processes skip the early ones.

    Args:
        request: What the program makes of its command line.
        argv: Command line without the name of the program.

    Raises:
        SystemExit: With status 0 after the help, or with status 2 after a refusal.
    """
    accept_surroundings()
    asks_for_help = {"-h", "--help"} & {argument.partition("=")[0] for argument in argv}
    if asks_for_help and print_help(request, argv):
        sys.exit(0)
    if asks_for_help or os.environ.get("WORLD_SIZE", "1") != "1":
        return
    try:
        if "nproc" in flag_names(request):
            _, argv = requested_processes(requested_elsewhere(argv)[1])
        require_known(request.parse(argv).named())
    except (UserError, OSError, ValueError, RuntimeError) as error:
        if as_user_error(error) is None:
            raise
        sys.exit(tell_error(error))


def require_known(named: Named) -> None:
    """Refuse names that mean nothing.

    Args:
        named: The names.

    Raises:
        UserError: If a name is unknown.
    """
    if named.rl_library is not None:
        require_library(named.rl_library)
    if named.panel is not None:
        load_panel(named.panel)
    require_mirrors(named.mirrors)
    if named.task is not None:
        _require_task(named.task)
    if (named.instance, named.usd_per_hour, named.prices) != (None, None, None):
        today = datetime.date.today()
        resolve_price(named.instance, named.usd_per_hour, load_price_book(named.prices), today=today)
    for name in named.runs:
        if name not in shipped_tasks():
            _require_run(name, named.log_root)


def _require_task(task: str) -> None:
    """Refuse an unknown task, unless another installed package may register it."""
    if task in TASKS or any(
        entry.module != "ledger_lab.tasks.registered" for entry in entry_points(group="isaaclab.tasks")
    ):
        return
    known = {*TASKS, *stock_tasks()}
    if task not in known:
        raise UserError(f"unknown task {task!r}: {nearest(task, known)} (scripts/list_envs.py lists them)")


def stock_tasks() -> set[str]:
    """Return the ids of Isaac Lab's own tasks from the text of its package, because its import takes seconds."""
    spec = importlib.util.find_spec("isaaclab_tasks")
    roots = [] if spec is None else spec.submodule_search_locations or []
    files = (path for root in roots for path in Path(root).rglob("__init__.py"))
    return {task for file in files for task in re.findall(r'\bid="([^"]+)"', file.read_text(encoding="utf-8"))}


def _require_run(name: str, log_root: Path) -> None:
    """Refuse a name that is neither a path nor the beginning of a run's id."""
    directories = {journal.parent for journal in find_journals(log_root)}
    if not Path(name).exists() and not any(each.name.rpartition("_")[2].startswith(name) for each in directories):
        find_run(name, log_root)
