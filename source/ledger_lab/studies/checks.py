"""What a study or a search refuses before its first training: sizes, machines and runs that can't work together."""

from __future__ import annotations

import argparse
import datetime
import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from ledger_lab.clusters.engine import Site
from ledger_lab.documents import read_file
from ledger_lab.errors import UserError
from ledger_lab.files import make_folder, whole_file
from ledger_lab.ledger.costs import load_price_book, resolve_price
from ledger_lab.ledger.libraries import PPO, dialect_of, require_library
from ledger_lab.ledger.redaction import Redactor
from ledger_lab.names import visible
from ledger_lab.studies.declared import Arm, Machine, Study
from ledger_lab.studies.recipe_batch import recipe_batch
from ledger_lab.tasks.pack import TASKS
from ledger_lab.training.launch import requested_processes
from ledger_lab.training.minibatches import TaskBatch, cannot_keep, cannot_split, kept_minibatches, minibatch_size
from ledger_lab.training.recipe import library_of, requested_dialect, requested_recipe, with_recipe
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.task_batches import ask_task_batches


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


def batches_of[Key](requests: Mapping[Key, TrainRequest]) -> dict[Key, TaskBatch]:
    """Return the batches of requests; without Isaac Lab, only those of LedgerLab's recipes.

    Args:
        requests: The requests of new trainings, by any key.

    Raises:
        UserError: If ``train.py`` would refuse a request.
    """
    known = {key: batch for key, request in requests.items() if (batch := _recipe_batch(request)) is not None}
    asked = {key: configuration_of(request) for key, request in requests.items() if key not in known}
    configurations = [*dict.fromkeys(asked.values())]
    told = ask_task_batches(configurations) if configurations else None
    if told is None:
        return known
    answers = dict(zip(configurations, told, strict=True))
    return known | {key: answers[configuration] for key, configuration in asked.items()}


def _recipe_batch(request: TrainRequest) -> TaskBatch | None:
    """Return the batch of a request with a recipe of LedgerLab; ``None`` if only task and library know it."""
    own_task, library = TASKS.get(request.task), library_of(request)
    recipe = None if own_task is None else own_task.recipe
    if recipe is None or request.agent is not None or request.algorithm not in (None, recipe.algorithm):
        return None
    plan, own = recipe_batch(library, recipe, request.overrides), recipe_batch(library, recipe)
    if plan is None or own is None:
        return None
    return TaskBatch(library=library, plan=plan, own=own, own_num_envs=recipe.num_envs)


def configuration_of(request: TrainRequest) -> tuple[str, ...]:
    """Return the arguments of ``train.py`` that the configurations of a request depend on."""
    named = {
        "--task": request.task,
        "--rl_library": request.rl_library,
        "--algorithm": request.algorithm,
        "--agent": request.agent,
    }
    return (*(word for flag, value in named.items() if value for word in (flag, value)), *request.overrides)


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
    requests = {arm: request_of(arm, extra) for arm in study.arms}
    for arm, request in requests.items():
        require_library(library_of(request))
        if request.algorithm not in (None, PPO):
            raise UserError(
                f"study {study.name}: {arm.cohort}: --algorithm {request.algorithm}: it has no batch that sizes of a "
                f"study could keep: compare sizes with {PPO}"
            )
        _require_rule_alone(arm, request)
    batches = batches_of(requests)
    for arm, batch in batches.items():
        if wrong := _cannot_train(arm, batch, keeps_size=requests[arm].keep_minibatch_size):
            raise UserError(
                f"study {study.name}: [scaling] num_envs = {study.scaling.num_envs}: {arm.cohort} ({batch.library}): "
                f"{wrong}: change num_envs, sizes, batch or the minibatches"
            )
    if unknown := [arm.cohort for arm in study.arms if arm not in batches]:
        told = f"train.py checks the minibatches of {', '.join(unknown)} at its start"
        return [f"Isaac Lab is not installed here: {told}"]
    return []


def _cannot_train(arm: Arm, batch: TaskBatch, *, keeps_size: bool) -> str | None:
    """Return why an arm can't be trained in its size, as a clause; ``None`` if it can."""
    if arm.size is None:
        return None
    num_envs, processes = arm.size.num_envs, arm.size.shape.all_processes
    kept = minibatch_size(batch.own_num_envs, batch.own)
    if keeps_size and kept_minibatches(num_envs, processes, batch.plan, kept) is None:
        return cannot_split(num_envs, batch.plan) or cannot_keep(num_envs, processes, batch.plan, kept)
    return cannot_split(num_envs, batch.plan)


def _require_rule_alone(arm: Arm, request: TrainRequest) -> None:
    """Refuse an override of what the rule for the batch sets.

    Raises:
        UserError: If there is one.
    """
    overridden = {override.partition("=")[0] for override in request.overrides}
    sets = {"minibatches": request.keep_minibatch_size, "learning_rate": request.scale_lr is not None}
    names = dialect_of(library_of(request)).overrides
    for key in (names[field] for field, is_set in sets.items() if is_set):
        if key in overridden and arm.size is not None:
            raise UserError(f'{arm.cohort}: batch = "{arm.size.batch}" sets {key}: leave out one of the two')


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
        request, instance = request_of(arm, extra), sites[arm.machine].instance
        if (request.instance, request.usd_per_hour) != (None, None):
            instance = request.instance
        book = load_price_book(request.prices)
        price = resolve_price(instance, request.usd_per_hour, book, today=datetime.date.today())
        if price.usd_per_hour is None:
            raise UserError(
                f"study {study.name}: [machine] {arm.machine}: {price.instance} has no price: set instance to an "
                "entry of config/prices.toml with a price, or add --usd_per_hour or --prices to arguments"
            )


def require_unchanged(
    study: Study, trained: Collection[str | None], extra: Sequence[str], log_root: Path
) -> dict[str, list[str]]:
    """Refuse arguments that differ from those with which the runs of a study were trained.

    This is so if the study file was changed after its first trainings, or if another study of the same name has the
    same ledger. The arguments are kept in a file in the ledger's folder of studies. Prices may differ.

    Args:
        study: The study.
        trained: Cohorts that have runs.
        extra: Further arguments of all trainings.
        log_root: Root of the ledger.

    Returns:
        The arguments to keep with :func:`keep_arguments` when trainings start.

    Raises:
        UserError: If the arguments of an arm with runs differ, or the file can't be read.
    """
    path = _kept(study, log_root)
    try:
        now = {
            arm.cohort: _trained_by(
                [*arm.arguments, *extra], None if arm.machine is None else study.machines[arm.machine]
            )
            for arm in study.arms
        }
        then = msgspec.json.decode(read_file(path), type=dict[str, list[str]]) if path.exists() else {}
        for cohort, asked in now.items():
            was = then.get(cohort, asked) if cohort in trained else asked
            if was != asked:
                before, after = (
                    " ".join(each for each in one if each not in other) or "fewer arguments"
                    for one, other in ((was, asked), (asked, was))
                )
                raise UserError(
                    f"study {study.name}: cohort {cohort} was trained with {visible(before)}, but the study now asks "
                    f"for {visible(after)}: rename the study file, use another log root, or ask for the same as before "
                    "(in the file and after --)"
                )
    except (OSError, ValueError) as error:
        raise UserError(f"study {study.name}: {error}") from error
    return then | now


def keep_arguments(study: Study, arguments: Mapping[str, Sequence[str]], log_root: Path) -> None:
    """Write the arguments with which the trainings of a study start, for :func:`require_unchanged`."""
    path = _kept(study, log_root)
    make_folder(path.parent)
    with whole_file(path) as unfinished:
        unfinished.write_bytes(msgspec.json.encode(arguments))


def _kept(study: Study, log_root: Path) -> Path:
    """Return the file with the arguments of the trainings of a study."""
    return log_root.resolve() / "studies" / f"{study.name}.json"


def _trained_by(arguments: Sequence[str], machine: Machine | None) -> list[str]:
    """Return the arguments that decide how a run trains, and on which instance; a recipe file by its content.

    Secrets in them are hidden as in the ledger, because these arguments are kept beside it.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for ignored in ("usd_per_hour", "instance", "prices", "cpu_threads", "mirror", "grace_s", "save_state_every"):
        parser.add_argument(f"--{ignored}", action="append")
    parser.add_argument("--recipe", type=Path)
    said, others = parser.parse_known_args(list(arguments))
    recipe = [] if said.recipe is None else [f"--recipe {hashlib.sha256(read_file(said.recipe)).hexdigest()[:12]}"]
    words = recipe if machine is None or machine.instance is None else [*recipe, f"instance={machine.instance}"]
    for word in others:
        if words and words[-1].startswith("--") and not {" ", "="} & {*words[-1]} and not word.startswith("--"):
            words[-1] += f" {word}"  # the value of a flag
        else:
            words.append(word)
    return sorted(Redactor().value(words))
