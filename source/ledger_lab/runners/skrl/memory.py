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

DISCOUNTS, WEIGHTS = "discounts", "weights"
"""Names of what is computed with a minibatch: factors of the values of next observations, and of losses."""


class SkrlMemory:
    """What SKRL's agents call of a memory. The library's own memory stores every observation twice."""

    def __init__(
        self,
        *,
        memory_size: int,
        num_envs: int,
        device: torch.device,
        replacement: bool = True,
        prioritized: bool = False,
        on_host: bool = False,
    ) -> None:
        """Remember the sizes. The agent then names what it stores.

        Args:
            memory_size: Steps of each environment.
            num_envs: Number of environments.
            device: Where the learner computes.
            replacement: Always true: a transition can be drawn twice.
            prioritized: Whether transitions are drawn by their priorities.
            on_host: Whether it is held by the host, and not by the device.
        """
        self._steps, self._num_envs, self._device = memory_size, num_envs, torch.device(device)
        self._prioritized = prioritized
        self._held_by = torch.device("cpu") if on_host else self._device
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
        return ReplayMemory(
            self._steps,
            self._num_envs,
            columns,
            self._held_by,
            prioritized=self._prioritized,
            pins=self._held_by.type == "cpu" and self._device.type == "cuda",
        )

    def create_tensor(self, name: str, *, size: Any, dtype: torch.dtype) -> bool:  # noqa: ANN401 - a space or a number
        """Note that a transition holds a tensor, unless its size is ``None``; return whether it does."""
        if size is None:
            return False
        self._sizes[name] = (compute_space_size(size, occupied_size=True), dtype)
        return True

    def add_samples(self, **samples: torch.Tensor | None) -> None:
        """Add a step of all environments, of shape (num_envs, size) each; ``None`` for what the task does not have."""
        held = {name: value.to(self._held_by) for name, value in samples.items() if value is not None}
        self.replay.add(
            {name: value for name, value in held.items() if not name.startswith(_NEXT)},
            {name.removeprefix(_NEXT): value for name, value in held.items() if name.startswith(_NEXT)},
        )

    def sample(
        self, names: Sequence[str], *, batch_size: int, n_step: int = 1, discount: float = 1.0
    ) -> list[list[torch.Tensor | None]]:
        """Draw transitions with replacement.

        With several steps, ``rewards`` are sums of discounted rewards, and next observations, and whether the episode
        was terminated, are those after the last reward of each sum.

        Args:
            names: What to return of them; besides what a transition holds, :data:`DISCOUNTS` and :data:`WEIGHTS`.
            batch_size: Number of transitions.
            n_step: Most rewards in a sum.
            discount: Discount factor per step.

        Returns:
            One minibatch on the learner's device: a tensor of shape (batch_size, size) for each name; ``None`` for what
            the task does not have, and for weights of transitions that were drawn uniformly.
        """
        index, after = self.replay.draw(batch_size)
        ahead = self.replay.look_ahead(index, after, n_step, discount)
        computed = {"rewards": ahead.rewards, DISCOUNTS: ahead.discounts, WEIGHTS: self.replay.weights()}

        def values(name: str) -> torch.Tensor | None:
            """Return what the minibatch holds under a name."""
            if name in computed:
                return computed[name]
            if name not in self._sizes:
                return None
            if name.startswith(_NEXT):
                return self.replay.read(name.removeprefix(_NEXT), ahead.after)
            return self.replay.read(name, ahead.last if name == "terminated" else index)

        minibatch = [values(name) for name in names]
        # From pinned memory, the host does not wait for the copy. From other memory, it waits.
        return [[None if each is None else each.to(self._device, non_blocking=True) for each in minibatch]]

    def prioritize(self, errors: torch.Tensor) -> None:
        """Set the priorities of the transitions that were drawn last.

        Args:
            errors: Absolute errors of their values, of shape (batch_size, 1).
        """
        self.replay.prioritize(errors.to(self._held_by))
