"""The space of a search: its parameters, and the values that they can have."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.tasks.recipes.ppo import RULES
from ledger_lab.tasks.recipes.recipe_file import FIELDS
from ledger_lab.tasks.recipes.settings import Rule, finite, one_of

type Value = bool | int | float | str | tuple[int, ...]
"""Value of a parameter; a tuple for the widths of layers."""
type Values = Mapping[str, Value]
"""Values by the names of their parameters."""

LIBRARY, NUM_ENVS = "rl_library", "num_envs"
"""Parameters besides the fields of a recipe and the overrides of the task."""
_KNOWN = (*FIELDS, NUM_ENVS, LIBRARY)
_OVERRIDE = "env."
_OVERRIDE_NAME = re.compile(r"env(?:\.\w+)+")
_DIGITS = 6
"""Significant digits of numbers. A number is then read back from a command line as it was proposed."""


class Parameter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parameter: a range of numbers, or a choice between values. In a search file, its table has all but the name."""

    name: str
    type: Literal["float", "int", "choice"]
    low: int | float = 0
    """Lower end of a range, inclusive."""
    high: int | float = 0
    """Upper end of a range, inclusive."""
    log: bool = False
    """Whether the range has a logarithmic scale."""
    choices: tuple[Value, ...] = ()
    """Values of a choice."""
    when: dict[str, tuple[Value, ...]] = {}
    """Values that earlier parameters must have for this one to matter."""

    def __post_init__(self) -> None:
        """Check the range or the choices.

        Raises:
            ValueError: If the table describes no range and no choice, or a value is wrong.
        """
        require_name(self.name)
        if self.type == "choice":
            if len({text_of(each) for each in self.choices}) < max(2, len(self.choices)):
                raise ValueError("choices must list at least two values, each once")
            values = self.choices
        else:
            if self.type == "int" and not (type(self.low) is int and type(self.high) is int):
                raise ValueError("low and high must be whole numbers")
            if self.low >= self.high or not math.isfinite(self.high - self.low) or (self.log and self.low <= 0):
                raise ValueError("low must be smaller than high, both finite, and positive if log = true")
            number = int if self.type == "int" else float
            values = (number(self.low), number(self.high))
        for value in values:
            if wrong := rule_of(self.name)(value):
                raise ValueError(f"{value!r}: {wrong}")

    def is_active(self, values: Values) -> bool:
        """Tell whether it matters, given the values of earlier parameters."""
        return all(values.get(name) in allowed for name, allowed in self.when.items())

    def nearest(self, number: float) -> int | float:
        """Return the value of a range that is nearest to a number: within the range, and rounded."""
        rounded = round(number) if self.type == "int" else float(f"{number:.{_DIGITS}g}")
        return min(max(rounded, self.low), self.high)

    def at(self, share: float) -> Value:
        """Return the value at a share of the range, or of the choices. Equal shares are equally probable values.

        Args:
            share: The share, in [0, 1).
        """
        if self.choices:
            return self.choices[int(share * len(self.choices))]
        low, high = (self.low - 0.5, self.high + 0.5) if self.type == "int" else (self.low, self.high)
        return self.nearest(low * (high / low) ** share if self.log else low + (high - low) * share)

    def changed(self, value: Value, factor: float) -> Value:
        """Return a value near another one. At an end of the range or of the choices, it can be the same.

        A number is multiplied by the factor; a whole number changes by at least 1. Of a choice, the next value is
        taken if the factor is above 1, and the value before it if not.

        Args:
            value: A value of this parameter.
            factor: The factor, positive and not 1.
        """
        step = 1 if factor > 1 else -1
        if self.choices:
            return self.choices[min(max(self.choices.index(value) + step, 0), len(self.choices) - 1)]
        assert isinstance(value, int | float)
        moved = self.nearest(value * factor)
        return self.nearest(value + step) if self.type == "int" and moved == value else moved


def read_space(where: str, tables: Mapping[str, Mapping[str, Any]]) -> tuple[Parameter, ...]:
    """Check the tables of a search file that describe the space.

    Args:
        where: Place in the file, for messages.
        tables: The tables by the names of their parameters.

    Raises:
        UserError: If a name is no parameter, or a table describes no range and no choice.
    """
    choices: dict[str, tuple[Value, ...]] = {}
    parameters = []
    for name, table in tables.items():
        try:
            parameter = msgspec.convert({**table, "name": name}, Parameter)
        except ValueError as error:
            raise UserError(f"{where}.{name}: {error}") from error
        for earlier, allowed in parameter.when.items():
            if not allowed or not set(allowed) <= set(choices.get(earlier, ())):
                raise UserError(f"{where}.{name}: when: {earlier!r} must be a choice above this table, with its values")
        choices[name] = parameter.choices
        parameters.append(parameter)
    return tuple(parameters)


def check_stock(where: str, values: Values) -> None:
    """Check the table ``[stock]`` of a search file.

    Args:
        where: Place in the file, for messages.
        values: The values by their names.

    Raises:
        UserError: If a name is no field of a recipe, or a value is wrong.
    """
    for name, value in values.items():
        if name == LIBRARY:
            raise UserError(f'{where}: {LIBRARY}: write arguments = ["--rl_library", "{value}"] instead')
        try:
            require_name(name)
        except ValueError as error:
            raise UserError(f"{where}: {error}") from error
        if wrong := rule_of(name)(value):
            raise UserError(f"{where}.{name} {value!r}: {wrong}")


def require_name(name: str) -> None:
    """Refuse what is neither a field of a recipe nor a setting of the task.

    Raises:
        ValueError: If it is neither.
    """
    if name not in _KNOWN and not _OVERRIDE_NAME.fullmatch(name):
        raise ValueError(f"a recipe has no {name!r}: {nearest(name, _KNOWN)} (or an override, env.PATH)")
    if name == f"{_OVERRIDE}scene.{NUM_ENVS}":
        raise ValueError(f"name it {NUM_ENVS}")


def text_of(value: Value) -> str:
    """Return a value as text that tells values apart: ``1``, ``1.0`` and ``"1"`` differ."""
    return json.dumps(value)


def is_override(name: str) -> bool:
    """Tell whether a parameter is a setting of the task."""
    return name.startswith(_OVERRIDE)


def overrides_of(values: Values) -> list[str]:
    """Return those values that are settings of the task, as overrides."""
    return [
        f"{name}={value if isinstance(value, str | float) else text_of(value)}"
        for name, value in values.items()
        if is_override(name)
    ]


def rule_of(name: str) -> Rule:
    """Return the rule for the values of a parameter."""
    if name == LIBRARY:
        return one_of(*LIBRARIES)
    if is_override(name):
        return lambda value: None if isinstance(value, bool | str) else finite(value)
    return RULES.get(name, lambda value: None if isinstance(value, bool) else "must be true or false")
