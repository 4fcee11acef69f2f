"""A tree of sums, which draws indices in proportion to their priorities, on any device."""

from __future__ import annotations

import torch

_BLOCK = 32
"""Leaves of a block."""


class PriorityTree:
    """Priorities of a fixed number of leaves, with the sums that are needed to draw from them.

    It has two levels: leaves, and sums of blocks of leaves. A binary tree would read fewer numbers, but it would need
    about twenty levels, one after the other: as many times the operations, which are kernels on a GPU. It would also
    need twice the memory.
    """

    def __init__(self, leaves: int, device: torch.device) -> None:
        """Begin with a priority of zero everywhere. A leaf with it is never drawn.

        Args:
            leaves: Number of leaves.
            device: Where it is held.
        """
        self._number = leaves
        self._blocks = torch.zeros(-(-leaves // _BLOCK), _BLOCK, dtype=torch.float64, device=device)
        self._leaves = self._blocks.view(-1)
        self._sums = torch.zeros(len(self._blocks), dtype=torch.float64, device=device)

    @property
    def nbytes(self) -> int:
        """Memory that it takes [B]."""
        return self._leaves.nbytes + self._sums.nbytes

    @property
    def priorities(self) -> torch.Tensor:
        """The priorities, of shape (leaves,)."""
        return self._leaves[: self._number]

    def set_range(self, first: int, last: int, priorities: torch.Tensor) -> None:
        """Set the priorities of leaves that follow one another.

        Args:
            first: The first leaf.
            last: The leaf after the last one.
            priorities: One value for all of them, or one for each.
        """
        self._leaves[first:last] = priorities
        blocks = slice(first // _BLOCK, (last - 1) // _BLOCK + 1)
        self._sums[blocks] = self._blocks[blocks].sum(dim=1)

    def set(self, index: torch.Tensor, priorities: torch.Tensor) -> None:
        """Set the priorities of some leaves.

        Args:
            index: The leaves, of shape (n,). Of a leaf that is listed twice, the larger priority counts.
            priorities: Shape (n,).
        """
        self._leaves.scatter_reduce_(0, index, priorities.to(self._leaves.dtype), "amax", include_self=False)
        block = index // _BLOCK
        self._sums.index_copy_(0, block, self._blocks.index_select(0, block).sum(dim=1))

    def draw(self, count: int, stream: torch.Generator | None = None) -> torch.Tensor:
        """Draw leaves in proportion to their priorities, one from each of ``count`` equal parts of the sum.

        Args:
            count: Number of leaves. A leaf can be drawn more than once.
            stream: Random stream; ``None`` for that of the process.

        Returns:
            Indices of the leaves, of shape (count,).
        """
        parts = torch.arange(count, dtype=self._sums.dtype, device=self._sums.device)
        shares = (parts + torch.rand(count, generator=stream, dtype=parts.dtype, device=parts.device)) / count
        ends = self._sums.cumsum(dim=0)
        block = _first_above(ends, shares * ends[-1])
        within = self._blocks.index_select(0, block).cumsum_(dim=1)
        before = ends.index_select(0, block) - self._sums.index_select(0, block)
        rest = (shares * ends[-1] - before).clamp_(min=0.0)
        return block * _BLOCK + _first_above(within, rest.unsqueeze(1)).squeeze(1)


def _first_above(ends: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return for each value the first index whose entry is above it.

    Args:
        ends: Numbers that do not fall along the last dimension, and whose last one is positive.
        values: Numbers from 0 to the last entry. One that rounding has raised to the last entry counts as below it.
    """
    largest = torch.nextafter(ends[..., -1:], ends.new_zeros(()))
    return torch.searchsorted(ends, torch.minimum(values, largest), right=True)
