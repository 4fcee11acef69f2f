"""The library and the settings that a request asks for, and its recipe file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import (
    LIBRARIES,
    agent_key,
    algorithm_of,
    dialect_of,
    library_with,
    require_library,
)
from ledger_lab.tasks.recipes.dialect import Dialect
from ledger_lab.tasks.recipes.recipe_file import RecipeFile, read_recipe
from ledger_lab.tasks.recipes.settings import names_code
from ledger_lab.training.request import TrainRequest


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
