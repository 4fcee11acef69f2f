"""Refusing configurations of SKRL that hide a program in an expression.

SKRL writes what a configuration says of a network into source code and runs it, and evaluates the names of some
components. A configuration can come with somebody else's ledger, so nothing may stand there but expressions of the kind
that networks are described by, and names of components.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from ledger_lab.errors import UserError

_CALLED = frozenset(
    {
        "concatenate",
        "permute",
        "one_hot_encoding",
        "elu",
        "leaky_relu",
        "relu",
        "selu",
        "sigmoid",
        "softmax",
        "softplus",
        "softsign",
        "tanh",
    }
)
"""Functions that SKRL's own descriptions of networks know."""

_EVALUATED = frozenset(
    {
        "learning_rate_scheduler",
        "observation_preprocessor",
        "state_preprocessor",
        "value_preprocessor",
        "amp_observation_preprocessor",
        "exploration_noise",
        "exploration_scheduler",
        "smooth_regularization_noise",
    }
)
"""Settings whose texts SKRL evaluates, wherever they stand."""

_COMPONENTS = ("KLAdaptiveLR", "RunningStandardScaler")

_ALLOWED = (
    ast.Expression,
    ast.Name,
    ast.Load,
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Subscript,
    ast.Slice,
    ast.BinOp,
    ast.operator,
    ast.UnaryOp,
    ast.unaryop,
    ast.Call,
    ast.keyword,
)


def require_harmless(cfg: Mapping[str, Any], path: str = "agent") -> None:
    """Check a whole configuration.

    Args:
        cfg: The configuration, or a group of it.
        path: Where it stands on the command line.

    Raises:
        UserError: If SKRL would run something in it.
    """
    for key, value in cfg.items():
        where = f"{path}.{key}"
        if where == "agent.models":
            require_expressions(value, where)
        elif key in _EVALUATED and isinstance(value, str) and value not in _COMPONENTS:
            raise UserError(f"{where} {value!r}: LedgerLab trains with {' or '.join(_COMPONENTS)} alone, or with none")
        elif isinstance(value, Mapping):
            require_harmless(value, where)


def require_expressions(node: Any, path: str) -> None:
    """Check every text and every name of a description of networks.

    Args:
        node: The description, or a part of it.
        path: Where it stands in the configuration.

    Raises:
        UserError: If one of them is more than an expression of names, numbers and known functions.
    """
    if isinstance(node, Mapping):
        for key, value in node.items():
            if not str(key).isidentifier():
                raise UserError(f"{path}: {key!r} is no name of a setting")
            require_expressions(value, f"{path}.{key}")
    elif isinstance(node, list | tuple):
        for index, value in enumerate(node):
            require_expressions(value, f"{path}.{index}")
    elif isinstance(node, str) and not _is_harmless(node):
        raise UserError(f"{path}: {node!r} is no expression of inputs, numbers and functions that SKRL knows")


def _is_harmless(text: str) -> bool:
    """Tell whether a text can do nothing but compute with what a network is given."""
    try:
        tree = ast.parse(text.strip() or "none", mode="eval")
    except (SyntaxError, ValueError):
        return False
    return all(
        isinstance(node, _ALLOWED)
        and (not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in _CALLED))
        for node in ast.walk(tree)
    )
