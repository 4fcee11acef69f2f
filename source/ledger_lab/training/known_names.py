"""Refuses names in a command line that mean nothing, before torch and Isaac Lab are imported."""

from __future__ import annotations

import datetime
import importlib.util
import re
from importlib.metadata import entry_points
from pathlib import Path

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import find_journals
from ledger_lab.ledger.costs import load_price_book, resolve_price
from ledger_lab.ledger.find import find_run
from ledger_lab.ledger.libraries import require_library
from ledger_lab.panels import load_panel
from ledger_lab.reports.mirrors.sink import require_mirrors
from ledger_lab.reports.terminal.request import Named
from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.pretrained import shipped_tasks


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
