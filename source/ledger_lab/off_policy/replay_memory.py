"""A replay memory for every library, which stores each observation once."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

_REWARDS, _TERMINATED = "rewards", "terminated"
"""Columns that sums of several rewards need."""
_LARGEST_INDEX = 2**31 - 1
"""Largest index that 32 bits hold."""


@dataclass(frozen=True)
class Column:
    """What every transition holds, such as its reward."""

    size: int
    """Numbers per transition."""
    dtype: torch.dtype = torch.float32
    """What it is stored as: floats, flags, or bytes (``torch.uint8``)."""
    observed: bool = False
    """Whether it is an observation, of which a transition has a second one: the next observation."""


class ReplayMemory:
    """The most recent steps of all environments, in a ring.

    The next observation of a transition is the observation of the step after it. So a transition holds an index in
    place of its next observation. Two kinds of transitions are special:

    - The next observations of the newest step have a row of their own, until the step after it is added.
    - If the step after it begins another episode, the episode was cut off: by a timeout, or by an interruption of the
      training. Then the observation of the transition is also its next one, as after every timeout in LedgerLab. If the
      episode ended by termination, the first observation of the next episode is the next one; learners do not use it.

    The memory recognizes a timeout by a next observation that equals the observation in every number. So if nothing
    changes in a step of an episode that goes on, the episode counts as cut off there, too.
    """

    def __init__(
        self,
        steps: int,
        num_envs: int,
        columns: Mapping[str, Column],
        device: torch.device,
        *,
        pins: bool = False,
    ) -> None:
        """Allocate the memory. It is written to, so that the system provides all of it now.

        Args:
            steps: Steps of each environment that it holds.
            num_envs: Number of environments.
            columns: What a transition holds, by name.
            device: Where it is held.
            pins: Whether the host holds it, and what is read from it goes to a GPU: then through pinned memory.
        """
        self.steps, self.num_envs, self.device, self._pins = steps, num_envs, device, pins
        self.added = 0
        """Steps that were ever added."""
        self._columns = dict(columns)
        self._tables: dict[str, torch.Tensor] = {}
        for name, column in columns.items():
            shape = (steps + 1 if column.observed else steps, num_envs, column.size)
            unset = float("nan") if column.dtype.is_floating_point else 0
            self._tables[name] = torch.full(shape, unset, dtype=column.dtype, device=device)
        few = index_bytes((steps + 1) * num_envs) == torch.int32.itemsize
        self._envs = torch.arange(num_envs, dtype=torch.int32 if few else torch.int64, device=device)
        self._next = torch.full((steps, num_envs), 0, dtype=self._envs.dtype, device=device)
        """Index of the observation that follows each transition."""
        self._drawn: torch.Tensor | None = None
        """Indices of the transitions that were drawn last."""
        self._drawn_at = 0
        """Steps that had been added by then."""

    def __len__(self) -> int:
        """Return the number of transitions."""
        return (self.added - self.oldest) * self.num_envs

    @property
    def oldest(self) -> int:
        """Number of the oldest step that it holds, counted from the first step that was added."""
        return max(0, self.added - self.steps)

    @property
    def fill(self) -> float:
        """Share that is filled, in [0, 1]."""
        return len(self) / (self.steps * self.num_envs)

    @property
    def nbytes(self) -> int:
        """Memory that it takes [B]."""
        return sum(table.nbytes for table in (*self._tables.values(), self._next))

    def add(self, values: Mapping[str, torch.Tensor], following: Mapping[str, torch.Tensor]) -> None:
        """Add a step of all environments.

        Args:
            values: The columns, of shape (num_envs, size) each.
            following: The next observations by column, of the same shapes. Where an episode was cut off by a timeout,
                they must be the observations of ``values``.
        """
        row = self.added % self.steps
        if self.added:
            newest = (self.added - 1) % self.steps
            observed = {name: self._tables[name] for name in following}
            begins = _differ((table[-1], values[name]) for name, table in observed.items())
            moved = _differ((table[-1], table[newest]) for table in observed.values())
            cut_off = begins | ~moved
            self._next[newest] = torch.where(cut_off, self._index_of(newest), self._index_of(row))
        for name in self._columns:
            self._tables[name][row].copy_(values[name])
        for name, value in following.items():
            self._tables[name][-1].copy_(value)
        self._next[row] = self._index_of(self.steps)
        self.added += 1

    def draw(self, batch_size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw transitions uniformly, with replacement.

        Args:
            batch_size: Number of transitions.

        Returns:
            Indices of the transitions, and of their next observations, for :meth:`read`; shape (batch_size,) each.
        """
        index = torch.randint(len(self), (batch_size,), device=self.device)
        self._drawn, self._drawn_at = index, self.added
        return index, self._next.view(-1).index_select(0, index)

    def look_ahead(
        self, index: torch.Tensor, after: torch.Tensor, steps: int, discount: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Add up the rewards of transitions and of those that follow them.

        A sum ends early with the last transition of an episode, whether it was terminated or cut off, and with the
        newest step.

        Args:
            index: First result of :meth:`draw`.
            after: Its second result.
            steps: Most rewards in a sum, at least 1.
            discount: Discount factor per step.

        Returns:
            The sums, of shape (n, 1); factors of the value of the observation after the last reward, of the same shape;
            indices of the transitions with the last reward, and of the observations after it, of shape (n,), for
            :meth:`read`.
        """
        rewards, last = self.read(_REWARDS, index), index
        discounts = torch.full_like(rewards, discount)
        for _ in range(steps - 1):
            is_stored = (after != last) & (after < self.steps * self.num_envs)
            goes_on = is_stored & ~self.read(_TERMINATED, last).squeeze(1)
            last = torch.where(goes_on, after, last)
            also = goes_on.unsqueeze(1)
            rewards = torch.where(also, rewards + discounts * self.read(_REWARDS, last), rewards)
            discounts = torch.where(also, discount * discounts, discounts)
            after = self._next.view(-1).index_select(0, last)
        return rewards, discounts, last, after

    def read(self, name: str, index: torch.Tensor) -> torch.Tensor:
        """Return values of a column, of shape (n, size).

        Args:
            name: The column.
            index: Result of :meth:`draw`, of shape (n,).
        """
        rows = self._tables[name].flatten(0, 1)
        if not self._pins:
            return rows.index_select(0, index)
        # Torch reuses a pinned block only after the copies from it have ended.
        found = torch.empty((len(index), rows.shape[1]), dtype=rows.dtype, device=self.device, pin_memory=True)
        return torch.index_select(rows, 0, index, out=found)

    def mean_age(self) -> float | None:
        """Return the mean age of the transitions that were drawn last, when they were drawn. This waits for a GPU.

        Returns:
            Steps of each environment that were added after the transition; ``None`` if none was ever drawn.
        """
        if self._drawn is None:
            return None
        ages = ((self._drawn_at - 1) % self.steps - self._drawn // self.num_envs) % self.steps
        return float(ages.double().mean())

    def state(self) -> dict[str, Any]:
        """Return all that it holds, for :meth:`restore`."""
        return {"added": self.added, "tables": self._tables, "next": self._next}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what another memory held.

        Args:
            state: Result of :meth:`state` of a memory with the same columns.

        Raises:
            KeyError: If a column is missing.
            ValueError: If a column has another shape or type.
        """
        tables = {name: state["tables"][name] for name in self._tables}
        for name, table in self._tables.items():
            if (held := tables[name]).shape != table.shape or held.dtype != table.dtype:
                raise ValueError(f"{name} of shape {tuple(held.shape)} and {held.dtype}: another replay memory's")
        for name, table in self._tables.items():
            table.copy_(tables[name])
        self._next.copy_(state["next"])
        self.added = state["added"]

    def _index_of(self, row: int) -> torch.Tensor:
        """Return the index of each environment's transition in a row."""
        return row * self.num_envs + self._envs


def _differ(pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """Return in which environments a number differs, of shape (num_envs,).

    Args:
        pairs: Tensors of a memory, and tensors to compare with them, of shape (num_envs, size) each. Those of the
            memory are rounded to its type, so the others are, too.
    """
    # Several times as fast on a CPU as (… != …).any(dim=-1). Differences of bytes wrap around, but not to 0.
    changed = ((held - other.to(held.dtype)).abs_().amax(dim=-1) != 0 for held, other in pairs)
    return functools.reduce(torch.logical_or, changed)


def index_bytes(rows: int) -> int:
    """Return the size of an index of an observation in a replay memory: 4 or 8.

    Args:
        rows: Observations that it holds.
    """
    return 4 if rows <= _LARGEST_INDEX else 8
