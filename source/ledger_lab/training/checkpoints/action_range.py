"""How large the actions of a policy are: algorithms with bounded actions need a bound that does not cut them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv
    from isaaclab.managers import ActionTerm

_PERCENTS = (1, 50, 99)
"""Percentiles that are shown."""

_NO_LIMIT = 1e6
"""Limits of this size or more mean none [rad, m, N or N·m]: engines give at least 1e9 to joints without a limit."""


class ActionRange:
    """Collects the actions of a policy."""

    def __init__(self) -> None:
        """Begin without any."""
        self._taken: list[torch.Tensor] = []

    def add(self, actions: torch.Tensor) -> None:
        """Add the actions of a step.

        Args:
            actions: Shape (environments, actions).
        """
        self._taken.append(actions.detach().float().cpu())

    def show(self, env: ManagerBasedRLEnv, console: Console) -> None:
        """Print percentiles and joint limits of each action, and one line on all actions.

        Args:
            env: The environment, which names the actions.
            console: Where to print.
        """
        actions = torch.cat(self._taken).numpy()
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("action")
        for percent in _PERCENTS:
            table.add_column(f"{percent} %", justify="right")
        table.add_column("joint limits", justify="right")
        for name, values, limit in zip(
            _names(env), np.percentile(actions, _PERCENTS, axis=0).T, joint_limits(env), strict=True
        ):
            table.add_row(name, *(f"{value:.2f}" for value in values), _limit_cell(limit))
        console.print(table)
        most, nearly_all, largest = np.percentile(np.abs(actions), (99, 99.9, 100))
        console.print(
            f"of the absolute values of all {actions.size} actions, 99 % are at most {most:.2f}, 99.9 % at most "
            f"{nearly_all:.2f}, and the largest is {largest:.2f}",
            markup=False,
            soft_wrap=True,
        )


def joint_limits(env: ManagerBasedRLEnv) -> list[tuple[float, float] | None]:
    """Return the limits of each action's joint in units of the action: (limit − offset) / scale.

    These are the soft limits of the position if the action is a position target, and the limits of the effort if it is
    an effort.

    Args:
        env: The environment.

    Returns:
        The limits in the first environment, in units of the action; ``None`` for other actions, and without limits.
    """
    manager = env.action_manager
    return [limits for name in manager.active_terms for limits in _limits_of(manager.get_term(name))]


def _limits_of(term: ActionTerm) -> list[tuple[float, float] | None]:
    """Return the limits of the actions of a term."""
    from isaaclab.envs.mdp.actions.joint_actions import JointEffortAction, JointPositionAction

    if isinstance(term, JointPositionAction):
        limits = term._asset.data.soft_joint_pos_limits.torch[0, term._joint_ids]
    elif isinstance(term, JointEffortAction):
        efforts = term._asset.data.joint_effort_limits.torch[0, term._joint_ids]
        limits = torch.stack((-efforts, efforts), dim=-1)
    else:
        return [None] * term.action_dim
    scale, offset = (
        value[0, :, None] if isinstance(value, torch.Tensor) else value for value in (term._scale, term._offset)
    )
    in_actions = ((limits - offset) / scale).sort(dim=-1).values
    known = (limits.abs() < _NO_LIMIT).all(dim=-1) & in_actions.isfinite().all(dim=-1)
    pairs = zip(in_actions.tolist(), known.tolist(), strict=True)
    return [(low, high) if limited else None for (low, high), limited in pairs]


def _limit_cell(limits: tuple[float, float] | None) -> str:
    """Return the cell of the limits of an action."""
    if limits is None:
        return "–"
    low, high = limits
    return f"±{high:.2f}" if low == -high else f"{low:.2f} to {high:.2f}"


def _names(env: ManagerBasedRLEnv) -> list[str]:
    """Return the name of each action: that of its joint, where each action moves one."""
    from isaaclab.envs.mdp.actions.joint_actions import JointAction

    manager, found = env.action_manager, []
    for name in manager.active_terms:
        term = manager.get_term(name)
        own = term._joint_names if isinstance(term, JointAction) else range(1, term.action_dim + 1)
        found += [f"{name} · {each}" for each in own]
    return found
