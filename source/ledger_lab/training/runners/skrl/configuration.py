"""Checks which of SKRL's own configurations LedgerLab can train.

SKRL turns the description of a network into source code and runs it, and evaluates the names of some components. A
configuration may come from a foreign ledger. So only plain expressions on network inputs and the names of known
components are allowed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from typing import Any

from ledger_lab.errors import UserError

_GROUPS = ("models", "memory", "agent", "trainer")

CALLED = frozenset(
    {
        *("concatenate", "permute", "one_hot_encoding"),
        *("elu", "leaky_relu", "relu", "selu", "sigmoid", "softmax", "softplus", "softsign", "tanh"),
    }
)
"""Functions that SKRL knows in descriptions of networks."""

_EVALUATED = frozenset(
    {
        *("learning_rate_scheduler", "exploration_noise", "exploration_scheduler", "smooth_regularization_noise"),
        *("observation_preprocessor", "state_preprocessor", "value_preprocessor", "amp_observation_preprocessor"),
    }
)
"""Settings whose texts SKRL evaluates, at any depth of the configuration."""

_LAYERS = ".layers."
"""Part of the path of a layer in a description of networks."""

_COMPONENTS = ("KLAdaptiveLR", "RunningStandardScaler")

_ALLOWED = (
    *(ast.Expression, ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple, ast.Subscript, ast.Slice),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.UnaryOp, ast.USub, ast.Call, ast.keyword),
)
"""Nodes of the plain expressions that may describe a network."""


def require_trainable(
    cfg: dict[str, Any], agent: str, *, policy: str = "GaussianMixin", several_processes: bool
) -> None:
    """Check that LedgerLab can train a configuration, and that nothing in it runs a program.

    Args:
        cfg: The configuration; it gets the library's default of the interval between checkpoints.
        agent: Class of the agent.
        policy: Class of the policy's network.
        several_processes: Whether several processes train together.

    Raises:
        UserError: If not.
    """
    for group in _GROUPS:
        if not isinstance(cfg.get(group), Mapping):
            raise UserError(f"agent.{group} is missing: a configuration of SKRL needs this group of settings")
    classes = {
        ("agent", "class"): agent,
        ("models", "policy", "class"): policy,
        ("trainer", "class"): "SequentialTrainer",
    }
    for path, known in classes.items():
        chosen: Any = functools.reduce(lambda node, name: node.get(name, {}), path, cfg)
        if chosen != known:
            raise UserError(f"agent.{'.'.join(path)} {chosen!r}: LedgerLab supports only {known}")
    threshold = cfg["agent"].get("kl_threshold")
    if several_processes and threshold:
        raise UserError(
            f"agent.agent.kl_threshold {threshold}: a process that ends its update early would let the other processes "
            "wait forever: set it to 0"
        )
    interval = cfg["agent"].setdefault("experiment", {}).setdefault("checkpoint_interval", "auto")
    if interval != "auto" and not isinstance(interval, int):
        raise UserError(
            f"agent.agent.experiment.checkpoint_interval {interval!r}: must be 'auto' or a whole number of steps"
        )
    require_harmless(cfg)


def require_harmless(cfg: Mapping[str, Any], path: str = "agent") -> None:
    """Check that SKRL would run nothing in a configuration.

    Args:
        cfg: The configuration, or a group of it.
        path: Its path on the command line.

    Raises:
        UserError: If SKRL would run a part of it.
    """
    for key, value in cfg.items():
        where = f"{path}.{key}"
        if where == "agent.models":
            _require_expressions(value, where)
        elif key in _EVALUATED and isinstance(value, str) and value not in _COMPONENTS:
            raise UserError(
                f"{where} {value!r}: LedgerLab supports only {' or '.join(_COMPONENTS)}: choose one of these, or leave "
                "it out"
            )
        elif isinstance(value, Mapping):
            require_harmless(value, where)


def _require_expressions(node: Any, path: str) -> None:
    """Check every text and every name in a description of networks.

    Args:
        node: The description, or a part of it.
        path: Its path in the configuration.

    Raises:
        UserError: If a text is more than an expression of names, numbers and known functions.
    """
    if isinstance(node, Mapping):
        for key, value in node.items():
            if not str(key).isidentifier():
                raise UserError(f"{path}: {key!r} is not the name of a setting")
            _require_expressions(value, f"{path}.{key}")
    elif isinstance(node, list | tuple):
        for index, value in enumerate(node):
            _require_expressions(value, f"{path}.{index}")
    elif isinstance(node, str) and not (_is_harmless(node) and (_LAYERS not in path or _is_plain(node))):
        raise UserError(f"{path}: {node!r} is not an expression of inputs, numbers and functions that SKRL knows")


def _is_plain(text: str) -> bool:
    """Tell whether a text ends no quote: SKRL puts the arguments of a layer between quotes, and then evaluates them."""
    return text.isprintable() and not any(each in text for each in "\"'\\")


def _is_harmless(text: str) -> bool:
    """Tell whether a text is an expression of inputs, numbers and known functions only."""
    try:
        tree = ast.parse(text.strip() or "none", mode="eval")
    except (SyntaxError, ValueError):
        return False
    return all(
        isinstance(node, _ALLOWED)
        and (not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in CALLED))
        for node in ast.walk(tree)
    )
