"""Files that change some fields of a task's recipe, for ``train.py --recipe FILE``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ledger_lab.documents import read_toml
from ledger_lab.errors import UserError, nearest
from ledger_lab.tasks.recipes.dialect import LEFT_OUT, Dialect, Recipe
from ledger_lab.tasks.recipes.ppo import PpoRecipe

_NOT_IN_TABLE = ("experiment_name", "num_envs")
_UNCHANGED: Mapping[object, Any] = {"str": "unchanged", "int": 1, "float": 1.0, "tuple[int, ...]": (1,)}
"""Values that all libraries support, by the types of fields without a default."""


def recipe_fields(recipe: type[Recipe]) -> tuple[str, ...]:
    """Return the fields that the table ``[recipe]`` of a file may set.

    Args:
        recipe: Class of the recipes of an algorithm.
    """
    return tuple(field.name for field in fields(recipe) if field.name not in _NOT_IN_TABLE)


FIELDS = recipe_fields(PpoRecipe)
"""Fields of PPO that the table ``[recipe]`` may set."""


class _Content(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Keys of a file, and the types of their values."""

    version: Literal[1]
    about: str = ""
    num_envs: Annotated[int, msgspec.Meta(ge=1)] | None = None
    overrides: list[str] = []
    recipe: dict[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class RecipeFile:
    """What a file changes."""

    path: Path
    """The file."""
    fields: Mapping[str, Any]
    """Values by the fields of :attr:`recipe`."""
    num_envs: int | None
    """Environments per process; ``None`` to keep those of the task."""
    overrides: tuple[str, ...]
    """Hydra overrides of the task."""
    recipe: type[Recipe] = PpoRecipe
    """Class of the recipes that it changes."""

    def to_data(self) -> dict[str, Any]:
        """Return what the file changes, as a JSON value."""
        return {"fields": dict(self.fields), "num_envs": self.num_envs, "overrides": list(self.overrides)}

    def translate(self, dialect: Dialect) -> tuple[str, ...]:
        """Return the changes as overrides: those of the library, then those of the task.

        A library may write several fields into one setting. The file must then set all of these fields, because the
        values of the task's own recipe are unknown here.

        Args:
            dialect: The library's settings, for the same algorithm.

        Raises:
            UserError: If the library does not support a value, cannot change a field by an override, or needs another
                field, too.
        """
        recipe = replace(_unchanged(self.recipe), experiment_name=str(self.path), **self.fields)
        dialect.require(recipe)
        written = {}
        for field, setting in dialect.settings.items():
            if setting.write is None:
                read, value = {field}, getattr(recipe, field)
            else:
                view = _Read(recipe)
                value, read = setting.write(view), view.names
            if read.isdisjoint(self.fields):
                continue
            if missing := sorted(read - self.fields.keys()):
                known = " and ".join(sorted(read & self.fields.keys()))
                raise UserError(
                    f"{self.path}: {dialect.title} writes {known} and {missing[0]} into one setting: set "
                    f"{missing[0]} in [recipe], too"
                )
            if any(part.isdigit() for part in setting.override.split(".")):
                raise UserError(
                    f"{self.path}: {dialect.title} keeps {field} in a list, which no override can change: leave "
                    f"{field} out, or use another library"
                )
            if value is not LEFT_OUT:
                written.update(dict.fromkeys((setting.override, *setting.also), _text(value)))
        dialect.template(recipe)  # refuses combinations of values
        return (*(f"{name}={value}" for name, value in written.items()), *self.overrides)


class _Read:
    """A view of a recipe that notes which fields are read."""

    def __init__(self, recipe: Recipe) -> None:
        """View a recipe."""
        self._recipe = recipe
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> object:
        """Return a field of the recipe, and note its name."""
        self.names.add(name)
        return getattr(self._recipe, name)


def read_recipe(path: Path, recipe: type[Recipe] = PpoRecipe) -> RecipeFile:
    """Read and check a recipe file.

    Args:
        path: The file.
        recipe: Class of the recipes that it changes, which is particular to an algorithm.

    Raises:
        UserError: If the file can't be read, or if it has an unknown key or a wrong value.
    """
    try:
        content = read_toml(path)
    except (OSError, ValueError) as error:
        raise UserError(f"--recipe {path}: the file can't be read: {error}") from error
    return check_recipe(path, content, recipe)


def check_recipe(path: Path, content: Mapping[str, Any], recipe: type[Recipe] = PpoRecipe) -> RecipeFile:
    """Check the content of a recipe file.

    Args:
        path: The file, for messages.
        content: Its keys and values.
        recipe: Class of the recipes that it changes, which is particular to an algorithm.

    Raises:
        UserError: If it has an unknown key or a wrong value.
    """
    try:
        known = msgspec.convert(content, _Content)
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {error}") from error
    return RecipeFile(
        path=path,
        fields=_checked(path, known.recipe, recipe),
        num_envs=known.num_envs,
        overrides=_task_overrides(path, known.overrides),
        recipe=recipe,
    )


def _checked(path: Path, changed: Mapping[str, Any], recipe: type[Recipe]) -> dict[str, Any]:
    """Return the values of fields, of the types that a recipe has."""
    known, types = recipe_fields(recipe), {field.name: field.type for field in fields(recipe)}
    values = {}
    for name, value in changed.items():
        if name not in known:
            raise UserError(f"{path}: {name!r} is not a field of {recipe.algorithm}: {nearest(name, known)}")
        if (rule := recipe.rules.get(name)) is not None:
            wrong = rule(value)
        else:
            wrong = None if isinstance(value, bool) else "must be true or false"
        if wrong:
            raise UserError(f"{path}: {name} {value!r}: {wrong}")
        if isinstance(value, list):
            value = tuple(value)
        values[name] = float(value) if types[name] == "float" else value
    return values


def _task_overrides(path: Path, overrides: list[str]) -> tuple[str, ...]:
    """Return the overrides of the task; those of the agent are fields, so that each library can take the file."""
    for each in overrides:
        name, found, _ = each.partition("=")
        if not found or not name.startswith("env."):
            raise UserError(f"{path}: override {each!r}: write env.PATH=VALUE; settings of the agent are fields")
        if name == "env.scene.num_envs":
            raise UserError(f"{path}: override {each!r}: write num_envs = N instead")
    return tuple(overrides)


def _unchanged(recipe: type[Recipe]) -> Recipe:
    """Return a recipe that all libraries support, to hold the changed fields. Its other values are never written."""
    return recipe(**{field.name: _UNCHANGED[field.type] for field in fields(recipe) if field.default is MISSING})


def _text(value: object) -> str:
    """Return a value as the command line takes it."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, float) else json.dumps(value, separators=(",", ":"))
