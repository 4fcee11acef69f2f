"""The batches of trainings before they start, from their requests."""

from __future__ import annotations

from collections.abc import Mapping

from ledger_lab.tasks.pack import TASKS
from ledger_lab.training.minibatches import TaskBatch
from ledger_lab.training.recipe import library_of
from ledger_lab.training.request import TrainRequest
from ledger_lab.training.runners.recipe_batch import recipe_batch
from ledger_lab.training.task_batches import ask_task_batches


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
