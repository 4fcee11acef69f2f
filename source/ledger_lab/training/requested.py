"""What a request names: tasks, runs, libraries and recipe files, before torch and Isaac Lab are imported."""

from __future__ import annotations

import datetime
import importlib.util
import re
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger import find_journals
from ledger_lab.ledger.costs.prices import load_price_book, resolve_price
from ledger_lab.ledger.find import find_run
from ledger_lab.ledger.libraries import (
    LIBRARIES,
    agent_key,
    algorithm_of,
    dialect_of,
    library_with,
    require_library,
)
from ledger_lab.panels import load_panel
from ledger_lab.reports.loggers.sink import require_loggers
from ledger_lab.reports.terminal.request import Named
from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.pretrained import shipped_tasks
from ledger_lab.tasks.recipes.dialect import Dialect
from ledger_lab.tasks.recipes.recipe_file import RecipeFile, read_recipe
from ledger_lab.tasks.recipes.settings import names_code
from ledger_lab.training.request import TrainRequest


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
    require_loggers(named.loggers)
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
        raise UserError(f"unknown task {task!r}: {nearest(task, known)} (scripts/list_envs.py --all lists them)")


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


def library_of(request: TrainRequest) -> str:
    """Return the library of a request; the first library is the default of LedgerLab's tasks, if it has the algorithm.

    Raises:
        UserError: If no library has the algorithm.
    """
    library = next(iter(LIBRARIES))
    return request.rl_library or (library if request.algorithm is None else library_with(request.algorithm, library))


def requested_dialect(request: TrainRequest) -> Dialect:
    """Return the settings of the library and the algorithm of a request.

    Raises:
        UserError: If there is no such library, or it does not have the algorithm.
    """
    require_library(library := library_of(request))
    algorithm = request.algorithm or algorithm_of(library, request.agent)
    agent_key(library, algorithm)  # refuses an algorithm that the library does not have
    return dialect_of(library, algorithm)


def requested_recipe(request: TrainRequest, dialect: Dialect) -> RecipeFile | None:
    """Read the recipe file of a request.

    Args:
        request: The request of a new run.
        dialect: The settings of its library and algorithm.

    Returns:
        The file; ``None`` if the request names none.

    Raises:
        UserError: If the file is wrong.
    """
    return None if request.recipe is None else read_recipe(Path(request.recipe), dialect.recipe)


def with_recipe(request: TrainRequest, file: RecipeFile, dialect: Dialect) -> TrainRequest:
    """Return a request that contains the changes of a recipe file.

    The overrides of the result hold all changes, so the run can be resumed without the file.

    Args:
        request: The request of a new run.
        file: The recipe file.
        dialect: The settings of its library.

    Raises:
        UserError: If the library does not support the file, the command line sets the same values, or an override of
            the file may load code.
    """
    if code := next(filter(names_code, file.overrides), None):
        raise UserError(f"{file.path}: override {code!r} may load code: give it on the command line")
    overrides = file.translate(dialect)
    given = {override.partition("=")[0].lstrip("+"): override for override in request.overrides}
    for override in overrides:
        name = override.partition("=")[0]
        if name in given:
            raise UserError(
                f"override {given[name]}: {file.path} sets {override}: leave the override out, or change the file"
            )
    if file.num_envs is not None and (request.num_envs is not None or "env.scene.num_envs" in given):
        chosen = given.get("env.scene.num_envs") or f"--num_envs {request.num_envs}"
        raise UserError(f"{chosen}: {file.path} sets num_envs = {file.num_envs}: leave one of them out")
    if "max_iterations" in file.fields and request.max_iterations is not None:
        raise UserError(
            f"--max_iterations {request.max_iterations}: {file.path} sets max_iterations = "
            f"{file.fields['max_iterations']}: leave one of them out"
        )
    num_envs = request.num_envs if file.num_envs is None else file.num_envs
    return replace(request, num_envs=num_envs, overrides=(*overrides, *request.overrides))
