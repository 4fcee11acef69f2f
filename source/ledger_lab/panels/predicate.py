"""Imports the success function of a panel, and checks its result."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ledger_lab.errors import UserError
from ledger_lab.panels.panel import Panel

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

type Predicate = Callable[..., torch.Tensor]
"""Called with the environment and the panel's parameters; returns a boolean tensor of shape (num_envs,)."""


def resolve_success(panel: Panel) -> Predicate:
    """Import the success function of a panel.

    Args:
        panel: The panel.

    Raises:
        UserError: If the function can't be imported, or doesn't accept an environment and the panel's parameters.
    """
    module, _, name = panel.success_function.partition(":")
    source = Path(panel.source)
    if source.is_absolute() and str(source.parent) not in sys.path:
        sys.path.append(str(source.parent))  # a module beside the panel file; last, so that it hides no other
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        raise UserError(
            f"panel {panel.name}: module {module!r} of success function {panel.success_function!r} cannot be "
            f"imported: {type(error).__name__}: {error}"
        ) from error
    try:
        function: Predicate = getattr(imported, name)
        inspect.signature(function).bind(None, **panel.success_params)
    except Exception as error:
        raise UserError(
            f"panel {panel.name}: success function {panel.success_function!r} cannot be called with "
            f"{panel.success_params}: {error}"
        ) from error
    return function


def checked_success(panel: Panel, env: ManagerBasedRLEnv) -> Predicate:
    """Import the success function, and call it once to check its result.

    Args:
        panel: The panel.
        env: The environment in which the panel's episodes run.

    Raises:
        UserError: If the function fails, does not return one truth value per environment.
    """
    base = env.unwrapped
    function = resolve_success(panel)
    name = f"panel {panel.name}: success function {panel.success_function!r}"
    try:
        answer = function(base, **panel.success_params)
    except Exception as error:
        raise UserError(f"{name} fails in {panel.task}: {type(error).__name__}: {error}") from error
    if not isinstance(answer, torch.Tensor):
        raise UserError(f"{name} returns a {type(answer).__name__}: it must return a tensor")
    if answer.dtype != torch.bool or answer.shape != (base.num_envs,):
        raise UserError(
            f"{name} returns {answer.dtype} of shape {tuple(answer.shape)}: it must return torch.bool of shape "
            "(num_envs,)"
        )
    return function
