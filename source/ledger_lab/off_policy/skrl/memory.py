"""The replay memory behind the interface of SKRL's memories."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import gymnasium as gym
import torch

from ledger_lab.off_policy.replay_memory import Column, ReplayMemory

_NEXT = "next_"
"""Prefix of the library's names of next observations."""


def columns_of(group: torch.Tensor | Mapping[str, Any]) -> list[Column]:
    """Return how to store an observation group: images of bytes as bytes, all else as the 32-bit floats of the learner.

    Args:
        group: A tensor of shape (num_envs, ...), or a dictionary of groups.

    Returns:
        Columns side by side, in the order in which the library flattens the group: dictionaries by their sorted keys.
    """
    if isinstance(group, torch.Tensor):
        return [Column(math.prod(group.shape[1:]), torch.uint8 if group.dtype == torch.uint8 else torch.float32)]
    each = itertools.chain.from_iterable(columns_of(group[name]) for name in sorted(group))
    by_type = itertools.groupby(each, key=lambda column: column.dtype)
    return [Column(sum(column.size for column in columns), dtype) for dtype, columns in by_type]


class SkrlMemory:
    """The methods that SKRL's agents call. The library's own memory stores every observation twice."""

    def __init__(
        self,
        *,
        memory_size: int,
        num_envs: int,
        device: torch.device,
        replacement: bool = True,
        on_host: bool = False,
        columns: Mapping[str, Sequence[Column]] | None = None,
    ) -> None:
        """Remember the sizes. The agent then names what it stores.

        Args:
            memory_size: Steps of each environment.
            num_envs: Number of environments.
            device: Where the learner computes.
            replacement: Always true: a transition can be drawn twice.
            on_host: Whether it is held by the host, and not by the device.
            columns: Columns side by side that hold observations, by the agent's names of these. What is not named is
                one column, of the type that the agent asks for.
        """
        self._steps, self._num_envs, self._device = memory_size, num_envs, torch.device(device)
        self._held_by = torch.device("cpu") if on_host else self._device
        self._given_columns = dict(columns or {})
        self._stored: dict[str, dict[str, Column]] = {}
        """Columns that hold what the agent has named, by its names, also those of next observations."""
        self._dtypes: dict[str, torch.dtype] = {}
        """Types that the agent has asked for."""
        self._n_step, self._discount = 1, 1.0
        self._learner: Any = None

    def __len__(self) -> int:
        """Return the number of transitions."""
        return len(self.replay)

    @property
    def observation_bytes(self) -> int:
        """Size of an observation, of all groups that it holds [B]. Ask after the agent has named what it stores."""
        return sum(column.size * column.dtype.itemsize for column in self._columns.values() if column.observed)

    @property
    def _columns(self) -> dict[str, Column]:
        """Columns of the memory."""
        return {
            column: replace(kind, observed=f"{_NEXT}{name}" in self._stored)
            for name, columns in self._stored.items()
            if not name.startswith(_NEXT)
            for column, kind in columns.items()
        }

    @cached_property
    def replay(self) -> ReplayMemory:
        """The memory; it is allocated at the first use, after the agent has named what it stores."""
        return ReplayMemory(
            self._steps,
            self._num_envs,
            self._columns,
            self._held_by,
            pins=self._held_by.type == "cpu" and self._device.type == "cuda",
        )

    def create_tensor(self, name: str, *, size: Any, dtype: torch.dtype) -> bool:  # noqa: ANN401 - a space or a number
        """Note that a transition holds a tensor, unless its size is ``None``; return whether it does."""
        if size is None:
            return False
        own = name.removeprefix(_NEXT)
        numbers = size if isinstance(size, int) else gym.spaces.flatdim(size)
        columns = self._given_columns.get(own) or [Column(numbers, dtype)]
        names = [own] if len(columns) == 1 else [f"{own}.{number}" for number in range(len(columns))]
        self._stored[name], self._dtypes[name] = dict(zip(names, columns, strict=True)), dtype
        return True

    def add_samples(self, **samples: torch.Tensor | None) -> None:
        """Add a step of all environments, of shape (num_envs, size) each; ``None`` for what the task does not have."""
        values: dict[str, torch.Tensor] = {}
        following: dict[str, torch.Tensor] = {}
        for name, value in samples.items():
            if value is not None:
                columns = self._stored[name]
                parts = value.split([kind.size for kind in columns.values()], dim=1)
                added = following if name.startswith(_NEXT) else values
                for (column, kind), part in zip(columns.items(), parts, strict=True):
                    added[column] = part.to(kind.dtype).to(self._held_by)
        self.replay.add(values, following)

    def sum_rewards(self, n_step: int, learner: Any) -> None:  # noqa: ANN401 - the library's own type
        """Let samples hold sums of several discounted rewards.

        A sum ends early where an episode ends, so what follows is discounted differently in each transition. The agent
        multiplies it by the discount factor of its configuration, which becomes a tensor for each batch.

        Args:
            n_step: Most rewards in a sum.
            learner: The agent's configuration, with its ``discount_factor``.
        """
        self._n_step, self._learner, self._discount = n_step, learner, learner.discount_factor

    def sample(self, names: Sequence[str], *, batch_size: int) -> list[list[torch.Tensor | None]]:
        """Draw transitions with replacement.

        With sums of rewards, next observations, and whether the episode was terminated, are those after the last reward
        of each sum.

        Args:
            names: What to return of them.
            batch_size: Number of transitions.

        Returns:
            One minibatch on the learner's device: a tensor of shape (batch_size, size) for each name; ``None`` for what
            the task does not have.
        """
        index, after = self.replay.draw(batch_size)
        last, rewards = index, None
        if self._n_step > 1:
            sums, discounts, last, after = self.replay.look_ahead(index, after, self._n_step, self._discount)
            rewards, self._learner.discount_factor = self._to_learner(sums), self._to_learner(discounts)

        def values(name: str) -> torch.Tensor | None:
            """Return what the minibatch holds under a name."""
            if name == "rewards" and rewards is not None:
                return rewards
            if name not in self._stored:
                return None
            if name.startswith(_NEXT):
                return self._read(name, after)
            return self._read(name, last if name == "terminated" else index)

        return [[values(name) for name in names]]

    def _read(self, name: str, index: torch.Tensor) -> torch.Tensor:
        """Return values on the learner's device, of the type that the agent has asked for."""
        parts = [self._to_learner(self.replay.read(column, index)) for column in self._stored[name]]
        parts = [part.to(self._dtypes[name]) for part in parts]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _to_learner(self, value: torch.Tensor) -> torch.Tensor:
        """Return values on the learner's device. The host waits for the copy, unless it is from pinned memory."""
        return value.to(self._device, non_blocking=True)
