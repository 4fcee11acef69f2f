"""Reads and writes single settings of a library's configuration, be it of dictionaries or of dataclasses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from typing import Any

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
