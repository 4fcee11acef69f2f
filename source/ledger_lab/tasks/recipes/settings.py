"""Reads, writes and checks single settings of a recipe or of a library's configuration.

A rule for a setting returns the reason against a value, as the end of a sentence, or ``None``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from ledger_lab.errors import nearest

type Rule = Callable[[Any], str | None]


def count(value: Any) -> str | None:  # noqa: ANN401 - whatever stands in a configuration
    """Accept whole numbers of at least 1."""
    return None if type(value) is int and value >= 1 else "must be a whole number of at least 1"


def count_or_zero(value: Any) -> str | None:  # noqa: ANN401
    """Accept whole numbers of at least 0."""
    return None if type(value) is int and value >= 0 else "must be a whole number of at least 0"


def finite(value: Any) -> str | None:  # noqa: ANN401
    """Accept finite numbers."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number and math.isfinite(value) else "must be a finite number"


def positive(value: Any) -> str | None:  # noqa: ANN401
    """Accept finite numbers above 0."""
    return None if finite(value) is None and value > 0 else "must be positive, and finite"


def not_negative(value: Any) -> str | None:  # noqa: ANN401
    """Accept finite numbers of at least 0."""
    return None if finite(value) is None and value >= 0 else "must be a finite number of at least 0"


def share(value: Any) -> str | None:  # noqa: ANN401
    """Accept numbers from 0 to 1."""
    return None if finite(value) is None and 0 <= value <= 1 else "must lie between 0 and 1"


def widths(value: Any) -> str | None:  # noqa: ANN401
    """Accept lists of at least one layer width."""
    is_right = isinstance(value, list | tuple) and value and not any(map(count, value))
    return None if is_right else "must be a list of the layers' widths, each a whole number of at least 1"


def anything(_: Any) -> str | None:  # noqa: ANN401
    """Accept every value; another check covers it."""
    return None


def one_of(*known: str | None) -> Rule:
    """Return a rule that accepts some names.

    Args:
        known: The names; ``None`` among them also accepts a missing value.
    """
    names = ["null" if name is None else name for name in known if name != ""]
    return lambda value: None if value in known else nearest(value if isinstance(value, str) else "", names)


def or_none(rule: Rule) -> Rule:
    """Return a rule that also accepts ``None``."""
    return lambda value: None if value is None else rule(value)


_DATA_KEY = re.compile(r"\+{0,2}[\w.]+", re.ASCII)
_DATA = re.compile(
    r"(?>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|(?!lambda\b)[A-Za-z_][\w-]*"
    r"|[,\[] *| ++(?=[,\]])|\])*+",  # never splits a word
    re.ASCII,
)
"""Numbers, words, and lists of them: no name of a function or a class in another package (``package.module:name`` for
Isaac Lab, also ``package.module.name`` for RSL-RL), no expression or statement, which SKRL would run, no path, and
nothing that Hydra reads otherwise than it is written, as ``${…}`` and escapes."""

ABSENT = object()
"""Returned for a path that does not exist. ``MISSING`` is a value: that of a field which nobody has set."""


def children(node: Any) -> dict[str, Any]:
    """Return the settings below a node of a configuration; empty for a value."""
    if isinstance(node, Mapping):
        return {str(key): value for key, value in node.items()}
    if hasattr(node, "__dataclass_fields__"):
        return dict(vars(node))
    return {str(index): item for index, item in enumerate(node)} if isinstance(node, list) else {}


def follow(node: Any, path: Sequence[str]) -> Any:
    """Return the node at a path, or :data:`ABSENT` if the path does not exist."""
    for name in path:
        node = children(node).get(name, ABSENT)
    return node


def read_setting(agent_cfg: Any, override: str) -> Any:
    """Return the value that an override of the agent's configuration would replace; ``None`` if there is none.

    Args:
        agent_cfg: The agent's configuration.
        override: Name of the override, like ``agent.algorithm.gamma``.
    """
    value = follow(agent_cfg, override.split(".")[1:])
    return None if value is ABSENT or isinstance(value, type(MISSING)) else value  # a copy of MISSING is another object


def write_setting(agent_cfg: Any, override: str, value: Any) -> None:
    """Set the value that an override of the agent's configuration would replace.

    Args:
        agent_cfg: The agent's configuration; it is modified. Dictionaries that are missing are made.
        override: Name of the override, like ``agent.algorithm.gamma``.
        value: The value.
    """
    node = agent_cfg
    *groups, name = override.split(".")[1:]
    for group in groups:
        below = children(node).get(group, ABSENT)
        if below is ABSENT:
            below = node[group] = {}
        node = below
    if isinstance(node, Mapping):
        node[name] = value  # type: ignore[index]
    else:
        setattr(node, name, value)


def names_code(override: str) -> bool:
    """Tell whether an override may name a function, a class or a file, which Isaac Lab or a library imports or loads.

    Args:
        override: ``PATH=VALUE``.
    """
    key, _, value = override.partition("=")
    plain = _DATA_KEY.fullmatch(key) is not None and _DATA.fullmatch(value) is not None
    return not plain or key.rpartition(".")[2] in ("func", "class_type")
