"""How large the actions of a policy are: algorithms with bounded actions need a bound that does not cut them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from isaaclab.envs import ManagerBasedRLEnv

_PERCENTS = (1, 50, 99)
"""Percentiles that are shown."""


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
        """Print percentiles of each action, and of the absolute values of all.

        Args:
            env: The environment, which names the actions.
            console: Where to print.
        """
        actions = torch.cat(self._taken).numpy()
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("action")
        for percent in _PERCENTS:
            table.add_column(f"{percent} %", justify="right")
        for name, values in zip(_names(env), np.percentile(actions, _PERCENTS, axis=0).T, strict=True):
            table.add_row(name, *(f"{value:.2f}" for value in values))
        console.print(table)
        most, nearly_all, largest = np.percentile(np.abs(actions), (99, 99.9, 100))
        console.print(
            f"of the absolute values of all {actions.size} actions, 99 % are at most {most:.2f}, 99.9 % at most "
            f"{nearly_all:.2f}, and the largest is {largest:.2f}",
            markup=False,
            soft_wrap=True,
        )


def _names(env: ManagerBasedRLEnv) -> list[str]:
    """Return the name of each action: that of its joint, where each action moves one."""
    from isaaclab.envs.mdp.actions.joint_actions import JointAction

    manager, found = env.action_manager, []
    for name in manager.active_terms:
        term = manager.get_term(name)
        own = term._joint_names if isinstance(term, JointAction) else range(1, term.action_dim + 1)
        found += [f"{name} · {each}" for each in own]
    return found
