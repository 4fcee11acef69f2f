"""The replay memory behind the interface of SKRL's memories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from skrl.utils.spaces.torch import compute_space_size

from ledger_lab.runners.replay_memory import Column, ReplayMemory

_NEXT = "next_"
"""Prefix of the library's names of next observations."""


class SkrlMemory:
    """What SKRL's agents call of a memory. The library's own memory stores every observation twice."""

    def __init__(self, *, memory_size: int, num_envs: int, device: torch.device, replacement: bool = True) -> None:
        """Remember the sizes. The agent then names what it stores.

        Args:
            memory_size: Steps of each environment.
            num_envs: Number of environments.
            device: Where it is held.
            replacement: Always true: a transition can be drawn twice.
        """
        self._steps, self._num_envs, self._device = memory_size, num_envs, torch.device(device)
        self._sizes: dict[str, tuple[int, torch.dtype]] = {}

    def __len__(self) -> int:
        """Return the number of transitions."""
        return len(self.replay)

    @cached_property
    def replay(self) -> ReplayMemory:
        """The memory; it is allocated at the first use, after the agent has named what it stores."""
        columns = {
            name: Column(size, dtype, observed=f"{_NEXT}{name}" in self._sizes)
            for name, (size, dtype) in self._sizes.items()
            if not name.startswith(_NEXT)
        }
        return ReplayMemory(self._steps, self._num_envs, columns, self._device)

    def create_tensor(self, name: str, *, size: Any, dtype: torch.dtype) -> bool:  # noqa: ANN401 - a space or a number
        """Note that a transition holds a tensor, unless its size is ``None``; return whether it does."""
        if size is None:
            return False
        self._sizes[name] = (compute_space_size(size, occupied_size=True), dtype)
        return True

    def add_samples(self, **samples: torch.Tensor | None) -> None:
        """Add a step of all environments, of shape (num_envs, size) each; ``None`` for what the task does not have."""
        held = {name: value for name, value in samples.items() if value is not None}
        self.replay.add(
            {name: value for name, value in held.items() if not name.startswith(_NEXT)},
            {name.removeprefix(_NEXT): value for name, value in held.items() if name.startswith(_NEXT)},
        )

    def sample(self, names: Sequence[str], *, batch_size: int) -> list[list[torch.Tensor | None]]:
        """Draw transitions uniformly, with replacement.

        Args:
            names: What to return of them.
            batch_size: Number of transitions.

        Returns:
            One minibatch: a tensor of shape (batch_size, size) for each name; ``None`` for what the task does not have.
        """
        index, after = self.replay.draw(batch_size)
        return [
            [
                self.replay.read(name.removeprefix(_NEXT), after if name.startswith(_NEXT) else index)
                if name in self._sizes
                else None
                for name in names
            ]
        ]
