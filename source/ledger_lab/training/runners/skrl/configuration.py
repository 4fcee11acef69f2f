"""Checks which of SKRL's own configurations LedgerLab can train.

SKRL turns the description of a network into source code and runs it, and evaluates the names of some components. A
configuration may come from a foreign ledger. So only plain expressions on network inputs and the names of known
components are allowed.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from typing import Any

from ledger_lab.errors import UserError
from ledger_lab.tasks.recipes.rules import count, one_of

_GROUPS = ("models", "memory", "agent", "trainer")

_CALLED = frozenset(
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

REPLAY_CLASS = "RandomMemory"
"""Class of a replay memory in a configuration."""

_REPLAY = {"class": REPLAY_CLASS, "memory_size": None, "replacement": True}
"""Settings of a replay memory, and the only values that LedgerLab supports; ``None`` for any."""

_ALLOWED = (
    *(ast.Expression, ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple, ast.Subscript, ast.Slice),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.UnaryOp, ast.USub, ast.Call, ast.keyword),
)
"""Nodes of the plain expressions that may describe a network."""


def require_trainable(
    cfg: Mapping[str, Any], agent: str, *, policy: str = "GaussianMixin", several_processes: bool
) -> None:
    """Check that LedgerLab can train a configuration, and that nothing in it runs a program.

    Args:
        cfg: The configuration.
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
    require_harmless(cfg)


def require_counts(cfg: Mapping[str, Any]) -> None:
    """Check the settings that SKRL counts in environment steps.

    Args:
        cfg: The complete configuration.

    Raises:
        UserError: If a setting is not a valid number of steps.
    """
    for path in ("agent.rollouts", "trainer.timesteps"):
        group, name = path.split(".")
        if wrong := count(value := cfg[group].get(name)):
            raise UserError(f"agent.{path} {value!r}: {wrong}")
    _require_interval(cfg)
    rollouts, kept = cfg["agent"]["rollouts"], cfg["memory"].get("memory_size")
    if kept not in (-1, rollouts):
        raise UserError(f"agent.memory.memory_size {kept!r}: must be -1, or equal to agent.agent.rollouts, {rollouts}")


def require_replay(cfg: Mapping[str, Any]) -> None:
    """Check the settings of the replay memory, and those that SKRL counts in environment steps or transitions.

    Args:
        cfg: The complete configuration.

    Raises:
        UserError: If a setting is not a valid number, or LedgerLab's replay memory does not have it.
    """
    agent, memory = cfg["agent"], {"replacement": True, **cfg["memory"]}
    for name, value in memory.items():
        if name not in _REPLAY:
            raise UserError(
                f"agent.memory.{name} {value!r}: LedgerLab's replay memory has no such setting: leave it out"
            )
    for name, only in _REPLAY.items():
        if only is not None and (value := memory.get(name)) != only:
            raise UserError(f"agent.memory.{name} {value!r}: LedgerLab supports only {only}")
    for path, least in (("learning_starts", 0), ("random_timesteps", 0)):
        if type(value := agent.get(path)) is not int or value < least:
            raise UserError(f"agent.agent.{path} {value!r}: must be a whole number of at least {least}")
    required = {
        "trainer.timesteps": cfg["trainer"].get("timesteps"),
        "memory.memory_size": cfg["memory"].get("memory_size"),
        "agent.experiment.write_interval": agent["experiment"].get("write_interval"),
        "agent.batch_size": agent.get("batch_size"),
        "agent.gradient_steps": agent.get("gradient_steps"),
    }
    for path, value in required.items():
        if wrong := count(value):
            raise UserError(f"agent.{path} {value!r}: {wrong}")
    _require_interval(cfg)


def _require_interval(cfg: Mapping[str, Any]) -> None:
    """Check the number of steps between two checkpoints."""
    interval = cfg["agent"]["experiment"]["checkpoint_interval"]
    if interval != "auto" and not isinstance(interval, int):
        raise UserError(
            f"agent.agent.experiment.checkpoint_interval {interval!r}: must be 'auto' or a whole number of steps"
        )


def refuse_activation(value: Any, find: Callable[[str], str | None]) -> str | None:  # noqa: ANN401 - from a configuration
    """Check activations, because SKRL silently ignores unknown activations.

    Args:
        value: A name, which may be empty, or a list with a name per layer.
        find: SKRL's own lookup of an activation by name.

    Returns:
        The reason against it, as the end of a sentence; ``None`` if SKRL has all of them.
    """
    known = one_of(*filter(find, _CALLED), "")
    names = [name or "" for name in value] if isinstance(value, list) else [value]
    return next(filter(None, (known(str(name).lower()) for name in names)), None)


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
        and (not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id in _CALLED))
        for node in ast.walk(tree)
    )
