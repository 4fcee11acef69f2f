"""The space of a search: its parameters, and the values that they can have."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger_lab.errors import UserError, nearest
from ledger_lab.ledger.libraries import LIBRARIES
from ledger_lab.tasks.recipes.ppo import RULES
from ledger_lab.tasks.recipes.recipe_file import FIELDS
from ledger_lab.tasks.recipes.rules import Rule, finite, one_of

type Value = bool | int | float | str | tuple[int, ...]
"""Value of a parameter; a tuple for the widths of layers."""
type Values = Mapping[str, Value]
"""Values by the names of their parameters."""

LIBRARY, NUM_ENVS = "rl_library", "num_envs"
"""Parameters besides the fields of a recipe and the overrides of the task."""
_KNOWN = (*FIELDS, NUM_ENVS, LIBRARY)
_OVERRIDE = "env."
_OVERRIDE_NAME = re.compile(r"env(?:\.\w+)+")
_RANGE_KEYS, _CHOICE_KEYS = ("type", "low", "high", "log", "when"), ("type", "choices", "when")
_DIGITS = 6
"""Significant digits of numbers. A number is then read back from a command line as it was proposed."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter: a range of numbers, or a choice between values."""

    name: str
    low: float | int | None = None
    """Lower end of a range, inclusive; an ``int`` for a range of whole numbers; ``None`` for a choice."""
    high: float | int | None = None
    """Upper end of a range, inclusive; ``None`` for a choice."""
    log: bool = False
    """Whether the range has a logarithmic scale."""
    choices: tuple[Value, ...] = ()
    """Values of a choice; empty for a range."""
    when: Mapping[str, tuple[Value, ...]] | None = None
    """Values that earlier parameters must have for this one to matter; ``None`` if it always does."""

    @property
    def is_whole(self) -> bool:
        """Whether it is a range of whole numbers."""
        return type(self.low) is int

    def is_active(self, values: Values) -> bool:
        """Tell whether it matters, given the values of earlier parameters."""
        return all(values.get(name) in allowed for name, allowed in (self.when or {}).items())

    def admits(self, value: Value) -> bool:
        """Tell whether it can have a value."""
        if self.low is None or self.high is None:
            return any(type(value) is type(each) and value == each for each in self.choices)
        kinds = (int,) if self.is_whole else (int, float)
        return type(value) in kinds and self.low <= value <= self.high  # type: ignore[operator]

    def nearest(self, number: float) -> int | float:
        """Return the value of a range that is nearest to a number: within the range, and rounded.

        Args:
            number: The number.

        Raises:
            ValueError: If this is a choice.
        """
        if self.low is None or self.high is None:
            raise ValueError(f"{self.name} is a choice, not a range")
        return min(max(round(number) if self.is_whole else float(f"{number:.{_DIGITS}g}"), self.low), self.high)

    def at(self, share: float) -> Value:
        """Return the value at a share of the range, or of the choices. Equal shares are equally probable values.

        Args:
            share: The share, in [0, 1).
        """
        if self.low is None or self.high is None:
            return self.choices[int(share * len(self.choices))]
        low, high = (self.low - 0.5, self.high + 0.5) if self.is_whole else (self.low, self.high)
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
            place = self.choices.index(value) + step
            return self.choices[min(max(place, 0), len(self.choices) - 1)]
        assert isinstance(value, int | float)
        moved = self.nearest(value * factor)
        return self.nearest(value + step) if self.is_whole and moved == value else moved


@dataclass(frozen=True, kw_only=True)
class Space:
    """All parameters of a search, in the order of its file."""

    parameters: tuple[Parameter, ...]

    def check(self, values: Values) -> str | None:
        """Return what is wrong with the values of a trial; ``None`` if nothing is."""
        active = {each.name for each in self.parameters if each.is_active(values)}
        if odd := sorted(values.keys() ^ active):
            return f"{odd[0]} {'is not part of the space' if odd[0] in values else 'is missing'}"
        for each in self.parameters:
            if each.name in values and not each.admits(values[each.name]):
                return f"{each.name} {values[each.name]!r} is outside the space"
        return None


def read_space(where: str, found: object) -> Space:
    """Check the tables of a search file that describe the space.

    Args:
        where: Place in the file, for messages.
        found: The tables by the names of their parameters.

    Raises:
        UserError: If a name is no parameter, or a table describes no range and no choice.
    """
    if not isinstance(found, dict) or not found:
        raise UserError(f"{where}: a search needs at least one table like [space.learning_rate]")
    parameters: dict[str, Parameter] = {}
    for name, table in found.items():
        parameters[name] = _parameter(f"{where}.{name}", name, table, parameters)
    return Space(parameters=tuple(parameters.values()))


def read_values(where: str, found: object) -> Values:
    """Check the table ``[stock]`` of a search file.

    Args:
        where: Place in the file, for messages.
        found: The values by their names.

    Raises:
        UserError: If a name is no field of a recipe, or a value is wrong.
    """
    if not isinstance(found, dict):
        raise UserError(f"{where}: must be a table of values, like learning_rate = 3e-4")
    values: dict[str, Value] = {}
    for name, value in found.items():
        if name == LIBRARY:
            raise UserError(f'{where}: {LIBRARY}: write arguments = ["--rl_library", "{value}"] instead')
        _require_name(f"{where}.{name}", name)
        if wrong := _rule(name)(as_value(value)):
            raise UserError(f"{where}.{name} {value!r}: {wrong}")
        values[name] = as_value(value)
    return values


def as_value(found: object) -> Any:  # noqa: ANN401 - checked by the rule of its parameter
    """Return a value of a TOML or JSON file as a value of a parameter: lists become tuples."""
    return tuple(found) if isinstance(found, list) else found


def as_text(value: Value) -> str:
    """Return a value as text that tells values apart: ``1``, ``1.0`` and ``"1"`` differ."""
    return json.dumps(value)


def is_override(name: str) -> bool:
    """Tell whether a parameter is a setting of the task."""
    return name.startswith(_OVERRIDE)


def override_text(value: Value) -> str:
    """Return a value as text of an override. Different values may have the same text."""
    return str(value) if isinstance(value, str | float) else as_text(value)


def _parameter(where: str, name: str, table: object, earlier: Mapping[str, Parameter]) -> Parameter:
    """Check one parameter."""
    _require_name(where, name)
    kind = table.get("type") if isinstance(table, dict) else None
    if not isinstance(table, dict) or kind not in ("float", "int", "choice"):
        raise UserError(f'{where}: give type = "float", "int" or "choice"')
    keys = _CHOICE_KEYS if kind == "choice" else _RANGE_KEYS
    if unknown := next((key for key in table if key not in keys), None):
        raise UserError(f"{where}: unknown key {unknown!r}: {nearest(unknown, keys)}")
    when = _condition(where, table["when"], earlier) if "when" in table else None
    if kind == "choice":
        return Parameter(name=name, choices=_choices(where, name, table.get("choices")), when=when)
    low, high, log = table.get("low"), table.get("high"), table.get("log", False)
    number = int if kind == "int" else float
    for end, value in (("low", low), ("high", high)):
        if type(value) not in ({int} if kind == "int" else {int, float}) or finite(value):
            raise UserError(f"{where}: {end} must be a {'whole' if kind == 'int' else 'finite'} number, not {value!r}")
        if wrong := _rule(name)(number(value)):  # type: ignore[arg-type]  # checked above
            raise UserError(f"{where}: {end} {value!r}: {wrong}")
    if not isinstance(log, bool):
        raise UserError(f"{where}: log must be true or false")
    if not low < high:  # type: ignore[operator]  # checked above
        raise UserError(f"{where}: low must be smaller than high, not {low!r} and {high!r}")
    if not math.isfinite(high - low):  # type: ignore[operator]
        raise UserError(f"{where}: the range from {low!r} to {high!r} is too wide to draw numbers from: narrow it")
    if log and low <= 0:  # type: ignore[operator]
        raise UserError(f"{where}: low must be positive if log = true, not {low!r}")
    return Parameter(name=name, low=number(low), high=number(high), log=log, when=when)  # type: ignore[arg-type]


def _require_name(where: str, name: str) -> None:
    """Refuse what is neither a field of a recipe nor a setting of the task."""
    if name not in _KNOWN and not _OVERRIDE_NAME.fullmatch(name):
        raise UserError(f"{where}: a recipe has no {name!r}: {nearest(name, _KNOWN)} (or an override, env.PATH)")
    if name == f"{_OVERRIDE}scene.{NUM_ENVS}":
        raise UserError(f"{where}: name it {NUM_ENVS}")


def _choices(where: str, name: str, found: object) -> tuple[Value, ...]:
    """Check the values of a choice."""
    if not isinstance(found, list) or len(found) < 2:
        raise UserError(f"{where}: choices must list at least two values")
    values = tuple(map(as_value, found))
    for value in values:
        if wrong := _rule(name)(value):
            raise UserError(f"{where}: choice {value!r}: {wrong}")
    text = override_text if is_override(name) else as_text
    if len({text(value) for value in values}) != len(values):
        raise UserError(f"{where}: choices: list each value once")
    return values


def _condition(where: str, found: object, earlier: Mapping[str, Parameter]) -> Mapping[str, tuple[Value, ...]]:
    """Check the condition under which a parameter matters."""
    if not isinstance(found, dict) or not found:
        raise UserError(f'{where}: when must be a table like {{ schedule = ["adaptive"] }}')
    for name, values in found.items():
        if name not in earlier or not earlier[name].choices:
            raise UserError(f"{where}: when: {name!r} must be a choice that stands above this table")
        if not isinstance(values, list) or not values:
            raise UserError(f"{where}: when: {name} must be a list of values")
        if odd := [each for each in values if not earlier[name].admits(as_value(each))]:
            raise UserError(f"{where}: when: {odd[0]!r} is none of the choices of {name}")
    return {name: tuple(map(as_value, values)) for name, values in found.items()}


def _rule(name: str) -> Rule:
    """Return the rule for the values of a parameter."""
    if name == LIBRARY:
        return one_of(*LIBRARIES)
    if is_override(name):
        return _plain
    return RULES.get(name, _switch)


def _switch(value: Any) -> str | None:  # noqa: ANN401
    """Accept truth values."""
    return None if isinstance(value, bool) else "must be true or false"


def _plain(value: Any) -> str | None:  # noqa: ANN401
    """Accept values of overrides."""
    if isinstance(value, bool | str):
        return None
    return finite(value) and "must be a finite number, text, true or false"


def canonical(space: Space) -> Sequence[Mapping[str, object]]:
    """Return a space as plain values, whose JSON text is the same for all files that mean the same."""
    return [
        {
            "name": each.name,
            "low": each.low,
            "high": each.high,
            "log": each.log,
            "choices": each.choices,
            "when": dict(sorted(each.when.items())) if each.when else None,
        }
        for each in space.parameters
    ]
