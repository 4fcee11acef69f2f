"""The values of a trial as a recipe file for ``train.py --recipe``, and from what a run has recorded of that file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger_lab.documents import toml_value
from ledger_lab.errors import UserError
from ledger_lab.studies.search.chains import Chain
from ledger_lab.studies.search.declaration import SearchDeclaration
from ledger_lab.studies.search.space import LIBRARY, NUM_ENVS, Parameter, Value, Values, is_override, override_text
from ledger_lab.tasks.recipes.recipe_file import FIELDS


def recipe_text(values: Values, about: str) -> str:
    """Return the content of a trial's recipe file. The library is not part of it.

    Args:
        values: Values that the trial sets, with those of ``[stock]``.
        about: Description of the file.
    """
    return "\n".join(["version = 1", f"about = {toml_value(about)}", *_lines(values, "recipe")]) + "\n"


def schedule_text(declaration: SearchDeclaration, chain: Chain, about: str) -> str:
    """Return the content of the file of a schedule: one table for each training of its chain, in their order.

    Args:
        declaration: The search.
        chain: The trainings.
        about: Description of the file.
    """
    lines = ["version = 1", f"about = {toml_value(about)}", f"task = {toml_value(declaration.task)}"]
    for link in chain:
        lines += ["", "[[training]]"]
        if link.iterations is not None:
            lines.append(f"iterations = {link.iterations}")
        lines += _lines(declaration.recipe(link.values), "training.recipe")
    return "\n".join(lines) + "\n"


def _lines(values: Values, table: str) -> list[str]:
    """Return the lines of a recipe; its fields are in a table."""
    lines = [f"{NUM_ENVS} = {toml_value(values[NUM_ENVS])}"] if NUM_ENVS in values else []
    if overrides := overrides_of(values):
        lines.append(f"overrides = {toml_value(overrides)}")
    if fields := fields_of(values):
        lines += ["", f"[{table}]", *(f"{name} = {toml_value(value)}" for name, value in fields.items())]
    return lines


def fields_of(values: Values) -> dict[str, Any]:
    """Return those values that are fields of a recipe."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if name in FIELDS
    }


def overrides_of(values: Values) -> list[str]:
    """Return those values that are settings of the task, as overrides."""
    return [f"{name}={override_text(value)}" for name, value in values.items() if is_override(name)]


def recorded_values(
    declaration: SearchDeclaration, recipe: Mapping[str, Any] | None, library: str, *, is_stock: bool
) -> Values:
    """Return the values of a trial from what one of its runs recorded.

    Args:
        declaration: The search.
        recipe: What the recipe file of the run changed, as in :class:`~ledger_lab.ledger.RunDeclared`; ``None`` if it
            had none.
        library: Library of the run.
        is_stock: Whether it is a run of the stock recipe, which has no values.

    Raises:
        UserError: If the run sets other things than its trial does.
    """
    found = _found(recipe)
    if not is_stock:
        found[LIBRARY] = library
    values: dict[str, Value] = {}
    for each in () if is_stock else declaration.space.parameters:
        if each.name in found and each.is_active(values):
            values[each.name] = _typed(each, found[each.name])
    asked = declaration.recipe(values)
    expected = {
        name: override_text(value) if is_override(name) else value for name, value in asked.items() if name != LIBRARY
    }
    found.pop(LIBRARY, None)
    for name in {**expected, **found}:
        if not _same(expected.get(name), found.get(name)):
            raise UserError(f"its recipe {_sets(name, found)}, and that of its trial {_sets(name, asked)}")
    return values


def _sets(name: str, values: Mapping[str, object]) -> str:
    """Say what a recipe sets."""
    return f"sets {name} to {values[name]!r}" if name in values else f"does not set {name}"


def _found(recipe: Mapping[str, Any] | None) -> dict[str, object]:
    """Return everything that a recorded recipe file sets; overrides as texts."""
    if recipe is None:
        return {}
    found: dict[str, object] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in recipe["fields"].items()
    }
    if recipe["num_envs"] is not None:
        found[NUM_ENVS] = recipe["num_envs"]
    return found | {name: text for name, _, text in (override.partition("=") for override in recipe["overrides"])}


def _typed(parameter: Parameter, found: object) -> Any:  # noqa: ANN401 - as its parameter has it
    """Return a recorded value with the type of its parameter. An override is text, and JSON may write 1.0 as 1."""
    if parameter.choices:
        text = override_text if is_override(parameter.name) else _itself
        return next((each for each in parameter.choices if _same(text(each), found)), found)
    if isinstance(found, str):
        number = int if parameter.is_whole else float
        return number(found) if _is_number(found, number) else found
    if isinstance(found, int | float) and not isinstance(found, bool):
        whole = parameter.is_whole and found == int(found)
        return int(found) if whole else found if parameter.is_whole else float(found)
    return found


def _itself(value: Value) -> Value:
    """Return a value as it is."""
    return value


def _is_number(text: str, number: type[int] | type[float]) -> bool:
    """Tell whether a text is a number of some type."""
    try:
        number(text)
    except ValueError:
        return False
    return True


def _same(one: object, other: object) -> bool:
    """Tell whether two values are equal, and both or none of them are truth values."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
