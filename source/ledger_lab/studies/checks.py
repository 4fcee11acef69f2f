"""What a study or a search refuses before its first training: sizes, machines and runs that can't work together."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from ledger_lab.clusters.engine import Site
from ledger_lab.errors import UserError
from ledger_lab.ledger import Run, RunDeclared
from ledger_lab.ledger.costs import load_price_book, resolve_price
from ledger_lab.ledger.libraries import PPO, dialect_of, require_library
from ledger_lab.names import visible
from ledger_lab.reports.terminal.request import flag_names
from ledger_lab.studies.declared import Arm, Study
from ledger_lab.tasks.pack import TASKS
from ledger_lab.training.launch import requested_processes
from ledger_lab.training.minibatches import TaskBatch, cannot_keep, cannot_split, kept_minibatches, minibatch_size
from ledger_lab.training.recipe import library_of, requested_dialect, requested_recipe, with_recipe
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.runners.recipe_batch import recipe_batch
from ledger_lab.training.task_batches import ask_task_batches

_TRAIN_THE_SAME = {"seed", "cohort", "cohort_size", "instance", "usd_per_hour", "prices", "trust_run", "recipe"}
"""Flags of a whole run that do not change how it trains. What a recipe file sets is in the other fields."""


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


def check_requests(study: Study, runs: Sequence[Run], extra: Sequence[str]) -> list[str]:
    """Refuse runs of a study that were trained with other arguments than the study now asks for.

    There are such runs if the study file was changed after its first trainings, or if another study of the same name
    has the same ledger. Prices may differ.

    Args:
        study: The study.
        runs: Its runs.
        extra: Further arguments of all trainings.

    Returns:
        A line about runs that could not be checked, if there are any.

    Raises:
        UserError: If a run differs, or ``train.py`` would refuse the arguments of its arm.
    """
    arms = {arm.cohort: arm for arm in study.arms}
    asked: dict[str, TrainRequest] = {}
    unchecked: list[str] = []
    begun: set[tuple[str, int]] = set()
    for declared in (run.declared for run in runs):
        if declared.seed not in study.seeds or declared.cohort is None or declared.cohort not in arms:
            continue
        arm, key = arms[declared.cohort], (declared.cohort, declared.seed)
        recorded = _recorded(declared)
        if recorded is None:
            unchecked.append(declared.run_id)
        else:
            request = asked.setdefault(arm.cohort, request_of(arm, extra))
            found = _difference(declared, recorded, request, is_repeated=key in begun)
            if found := found or _other_machine(study, arm, extra, declared, recorded):
                then, now = found
                raise UserError(
                    f"study {study.name}: run {declared.run_id} of cohort {declared.cohort} was trained "
                    f"{visible(then)}, but the study now asks for a training {visible(now)}: rename the study file, "
                    "use another log root, or ask for the same as before (in the file and after --)"
                )
        begun.add(key)
    if not unchecked:
        return []
    shown = ", ".join(unchecked[:3]) + (", …" if len(unchecked) > 3 else "")
    return [f"not checked whether they were trained as the study now asks: {shown} (they recorded no readable request)"]


def _recorded(declared: RunDeclared) -> TrainRequest | None:
    """Return the request that a run recorded; ``None`` if there is none that this version can read."""
    if declared.request is None:
        return None
    try:
        return TrainRequest.from_data(declared.request)
    except (TypeError, ValueError, UserError):
        return None


def _difference(
    declared: RunDeclared, recorded: TrainRequest, request: TrainRequest, *, is_repeated: bool
) -> tuple[str, str] | None:
    """Return how a run was trained, and how it should be, in words; ``None`` if both are the same.

    Args:
        declared: Declaration of the run.
        recorded: Request that it recorded.
        request: Request that the study now makes.
        is_repeated: Whether it repeats an earlier run of its training, and so has only what that left of the limit.
    """
    for name in ("device", *flag_names(TrainRequest, each_attempt=False)):
        then, now = getattr(recorded, name), getattr(request, name)
        # What was not given has its default; the declaration has what that was.
        default = getattr(declared, name, None) if then is None else None
        if name in _TRAIN_THE_SAME or now == then or (now is not None and now == default):
            continue
        if now is None and name not in recorded.given:
            continue
        if name == "limit_s" and is_repeated and None not in (then, now) and then < now:
            continue
        return _flag(name, then if then is not None else default), _flag(name, now)
    before, after = _overrides(recorded), _overrides(request)
    if "physics" not in after and not any(word.startswith("physics=") for word in declared.command):
        before.pop("physics", None)  # train.py chose the engine, and recorded it as an override
    if names := [name for name in {**before, **after} if before.get(name) != after.get(name)]:
        return _override(names[0], before), _override(names[0], after)
    return None


def _other_machine(
    study: Study, arm: Arm, extra: Sequence[str], declared: RunDeclared, recorded: TrainRequest
) -> tuple[str, str] | None:
    """Return on how many processes, or on which instance, a run was trained, and on which it should be."""
    asked, _ = requested_processes([*arm.arguments, *extra])
    processes = (asked or 1) * (arm.nodes or declared.machines or 1)
    if processes != declared.world_size and (asked is not None or arm.nodes is not None):
        return _in_processes(declared.world_size), _in_processes(processes)
    instance = None if arm.machine is None else study.machines[arm.machine].instance
    if instance is not None and recorded.instance != instance:
        return _flag("instance", recorded.instance), _flag("instance", instance)
    return None


def _in_processes(count: int) -> str:
    """Describe a number of processes."""
    return f"in {count} process{'' if count == 1 else 'es'}"


def _overrides(request: TrainRequest) -> dict[str, str]:
    """Return the values of overrides by their names; of several of one name, the last one counts."""
    pairs = (override.partition("=") for override in request.overrides)
    return {name.lstrip("+"): value for name, _, value in pairs}


def _override(name: str, values: Mapping[str, str]) -> str:
    """Describe an override."""
    return f"with {name}={values[name]}" if name in values else f"without {name}=…"


def _flag(name: str, value: object) -> str:
    """Describe a flag."""
    if value is None or value is False or value == ():
        return f"without --{name}"
    if value is True:
        return f"with --{name}"
    words = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"with --{name} {words}"
