"""A policy as one module that holds all its tensors, so that it can be traced, moved and saved."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ledger_lab.panels.policy import Policy


class ActingModule(torch.nn.Module):
    """A function from observation groups to actions, and the modules and tensors that it uses."""

    def __init__(self, act: Policy, **parts: torch.nn.Module | torch.Tensor) -> None:
        """Register what the function uses.

        Args:
            act: The function.
            parts: Its networks, normalizers, and constants such as limits, by the names that they are saved under.
        """
        super().__init__()
        self._act = act
        for name, part in parts.items():
            if isinstance(part, torch.nn.Module):
                self.add_module(name, part)
            else:
                self.register_buffer(name, part)

    def forward(self, groups: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return deterministic actions of shape (n, actions) for observation groups of shape (n, ...)."""
        return self._act(groups)
