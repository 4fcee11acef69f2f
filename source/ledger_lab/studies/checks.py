"""What a study or a search refuses before its first training: sizes, machines and runs that can't work together."""

from __future__ import annotations

import ast
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ledger_lab.clusters.engine import Site
from ledger_lab.errors import UserError
from ledger_lab.ledger import Run
from ledger_lab.ledger.costs.prices import Price, load_price_book, resolve_price
from ledger_lab.ledger.libraries import dialect_of, require_library
from ledger_lab.ledger.redaction import Redactor
from ledger_lab.names import visible
from ledger_lab.reports.terminal.request import flag_names
from ledger_lab.studies.declared import Arm, Study
from ledger_lab.tasks.pack import TASKS
from ledger_lab.tasks.recipes import PpoRecipe
from ledger_lab.tasks.recipes.settings import count, read_setting, write_setting
from ledger_lab.training.launch import requested_processes
from ledger_lab.training.minibatches import TaskBatch, cannot_keep, cannot_split, kept_minibatches, minibatch_size
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.requested import library_of, requested_dialect, requested_recipe, with_recipe
from ledger_lab.training.runners.adapter import BatchPlan


def request_of(arm: Arm, extra: Sequence[str]) -> TrainRequest:
    """Return the request of an arm, with what its recipe file sets.

    Args:
        arm: The arm.
        extra: Further arguments of all trainings.

    Raises:
        UserError: If ``train.py`` would refuse the arguments.
    """
    _, arguments = requested_processes([*arm.arguments, *extra])
    request = TrainRequest.parse(arguments)
    if request.recipe is None:
        return request
    dialect = requested_dialect(request)
    file = requested_recipe(request, dialect)
    return request if file is None else with_recipe(request, file, dialect)


def known_batch(request: TrainRequest) -> TaskBatch | None:
    """Return the batch of a request with a recipe of LedgerLab, from the dialect alone: no library need be installed.

    Args:
        request: The request of a new training.

    Returns:
        The batch; ``None`` if only task and library know it.
    """
    own_task, library = TASKS.get(request.task), library_of(request)
    recipe = None if own_task is None else own_task.recipe
    if recipe is None or request.agent is not None or request.algorithm not in (None, recipe.algorithm):
        return None
    plan, own = recipe_batch(library, recipe, request.overrides), recipe_batch(library, recipe)
    if plan is None or own is None:
        return None
    return TaskBatch(library=library, plan=plan, own=own, own_num_envs=recipe.num_envs)


def recipe_batch(library: str, recipe: PpoRecipe, overrides: Sequence[str] = ()) -> BatchPlan | None:
    """Return what :meth:`Adapter.plan` returns for a recipe.

    Args:
        library: Name on the command line.
        recipe: The recipe.
        overrides: Overrides of the command line.

    Returns:
        The batch arithmetic; ``None`` if the overrides change it in a way that only the library understands.
    """
    dialect = dialect_of(library)
    setting = dialect.settings["minibatches"]
    known = {dialect.overrides["horizon"], setting.override}
    try:
        cfg = dialect.translate(recipe)
    except UserError:  # it trains with other values of the recipe
        return None
    for override in overrides:
        key, _, value = override.partition("=")
        if key in known:
            try:
                write_setting(cfg, key, ast.literal_eval(value))
            except (ValueError, SyntaxError):
                return None
        elif key == "presets" or "batch" in key:
            return None
    horizon, held = (read_setting(cfg, dialect.overrides[name]) for name in ("horizon", "minibatches"))
    if count(horizon) or count(held):
        return None
    # Without a translation of its own, the setting holds the number of minibatches; else the steps of an environment.
    rows_per_env = setting.write is not None
    if rows_per_env and (setting.write is None or setting.write(recipe) != recipe.horizon // recipe.minibatches):
        return None
    if rows_per_env and horizon % held:
        return None
    return BatchPlan(
        max_iterations=recipe.max_iterations,
        horizon=horizon,
        epochs=recipe.epochs,
        minibatches=horizon // held if rows_per_env else held,
        minibatch_setting=setting.override,
        save_interval=recipe.save_interval,
        rows_per_env=rows_per_env,
    )


def check_sizes(study: Study, extra: Sequence[str]) -> list[str]:
    """Refuse sizes whose batches do not split into minibatches.

    Args:
        study: The study.
        extra: Further arguments of all trainings.

    Returns:
        A line about arms that could not be checked, if there are any.

    Raises:
        UserError: If the minibatches of an arm don't fit, or ``train.py`` would refuse its arguments.
    """
    if study.scaling is None:
        return []
    unknown = []
    for arm in study.arms:
        request = request_of(arm, extra)
        require_library(library_of(request))
        if (batch := known_batch(request)) is None:
            unknown.append(arm.cohort)
        elif wrong := _cannot_train(arm, batch, keeps_size=request.keep_minibatch_size):
            raise UserError(
                f"study {study.name}: [scaling] num_envs = {study.scaling.num_envs}: {arm.cohort} ({batch.library}): "
                f"{wrong}: change num_envs, sizes, batch or the minibatches"
            )
    return [f"train.py checks the minibatches of {', '.join(unknown)} at its start"] if unknown else []


def _cannot_train(arm: Arm, batch: TaskBatch, *, keeps_size: bool) -> str | None:
    """Return why an arm can't be trained in its size, as a clause; ``None`` if it can."""
    if arm.size is None:
        return None
    num_envs, processes = arm.size.num_envs, arm.size.shape.all_processes
    kept = minibatch_size(batch.own_num_envs, batch.own)
    if keeps_size and kept_minibatches(num_envs, processes, batch.plan, kept) is None:
        return cannot_split(num_envs, batch.plan) or cannot_keep(num_envs, processes, batch.plan, kept)
    return cannot_split(num_envs, batch.plan)


def check_machines(study: Study, sites: Mapping[str | None, Site], extra: Sequence[str]) -> None:
    """Refuse machines without a price: the trainings of a study of machines are compared by their costs.

    Args:
        study: The study.
        sites: Its clusters by the levels of the table ``[machine]``.
        extra: Further arguments of all trainings.

    Raises:
        UserError: If a machine has no price, or ``train.py`` would refuse the arguments of an arm.
    """
    for arm in study.arms if study.machines else ():
        price = price_of(request_of(arm, extra), sites[arm.machine])
        if price.usd_per_hour is None:
            raise UserError(
                f"study {study.name}: [machine] {arm.machine}: {price.instance} has no price: set instance to an "
                "entry of config/prices.toml with a price, or add --usd_per_hour or --prices to arguments"
            )


def price_of(request: TrainRequest, site: Site | None) -> Price:
    """Return the price of a training: that of its request, or of the cluster that it runs on.

    Args:
        request: The request.
        site: The cluster; ``None`` for this machine.

    Raises:
        UserError: If there is no such price.
    """
    instance = request.instance
    if site is not None and (instance, request.usd_per_hour) == (None, None):
        instance = site.instance
    book = load_price_book(request.prices)
    return resolve_price(instance, request.usd_per_hour, book, today=datetime.date.today())


def require_unchanged(study: Study, runs: Iterable[Run], extra: Sequence[str]) -> None:
    """Refuse runs of a study that requested other arguments than its file now asks for; prices may differ.

    This is so if the file was changed after the first trainings, or if another study of its name has the same ledger.

    Args:
        study: The study.
        runs: Its runs.
        extra: Further arguments of all trainings.

    Raises:
        UserError: If the arguments of an arm with runs differ.
    """
    arms = {arm.cohort: arm for arm in study.arms}
    for declared in (run.declared for run in runs if run.declared.request):
        arm = arms[str(declared.cohort)]
        request = Redactor().value(request_of(arm, extra).to_data())  # as in the ledger
        asked, was = {*_deciding(request)}, {*_deciding(declared.request or {})}
        was -= {each for each in was - asked if each == _DEFAULT_PHYSICS or each.startswith("--agent ")}
        if arm.machine is not None and (instance := study.machines[arm.machine].instance) is not None:
            asked.add(f"instance={instance}")
            was.add(f"instance={declared.price['instance']}")
        if was != asked:
            before, after = (
                " ".join(sorted(one - other)) or "fewer arguments" for one, other in ((was, asked), (asked, was))
            )
            raise UserError(
                f"study {study.name}: cohort {arm.cohort} was trained with {visible(before)}, but the study now asks "
                f"for {visible(after)}: rename the study file, use another log root, or ask for the same as before "
                "(in the file and after --)"
            )


_DEFAULT_PHYSICS = "physics=newton_mujoco"
"""Override that ``train.py`` adds where the user names no physics; it also names the agent of an algorithm."""
_MAY_CHANGE = (
    "seed",
    "cohort",
    "cohort_size",
    "limit_s",
    "instance",
    "usd_per_hour",
    "prices",
    "recipe",
    "distributed",
)
"""Flags whose values may differ between the runs of an arm. The overrides contain what a recipe file sets."""


def _deciding(request: Mapping[str, Any]) -> list[str]:
    """Return the flags and overrides of a request that decide how a run trains."""
    names = ["device", *(name for name in flag_names(TrainRequest, each_attempt=False) if name not in _MAY_CHANGE)]
    overrides = request.get("overrides")  # a ledger may hold anything
    flags = (f"--{name} {value}" for name in names if (value := request.get(name, getattr(TrainRequest, name))))
    return [*flags, *map(str, overrides if isinstance(overrides, list) else ())]
