"""A tree of sums, which draws indices in proportion to their priorities, on any device."""

from __future__ import annotations

import torch


class PriorityTree:
    """Priorities of a fixed number of leaves, with the sums that are needed to draw from them.

    It is a binary heap: node ``k`` holds the sum of nodes ``2k`` and ``2k + 1``, node 1 holds the sum of all, and the
    last half of the nodes are the leaves. So a draw and a change visit a node per level, for all leaves of a batch at
    once. The nodes of a level need not be complete, so any number of leaves fits.
    """

    def __init__(self, leaves: int, device: torch.device) -> None:
        """Begin with a priority of zero everywhere. A leaf with it is never drawn.

        Args:
            leaves: Number of leaves.
            device: Where it is held.
        """
        self._leaves = leaves
        self._sums = torch.zeros(2 * leaves, dtype=torch.float64, device=device)
        self._levels = (2 * leaves - 1).bit_length() - 1
        """Levels between the root and the lowest leaf."""

    @property
    def nbytes(self) -> int:
        """Memory that it takes [B]."""
        return self._sums.nbytes

    @property
    def priorities(self) -> torch.Tensor:
        """The priorities, of shape (leaves,)."""
        return self._sums[self._leaves :]

    def set_range(self, first: int, last: int, priorities: torch.Tensor) -> None:
        """Set the priorities of leaves that follow one another.

        Args:
            first: The first leaf.
            last: The leaf after the last one.
            priorities: One value for all of them, or one for each.
        """
        self.priorities[first:last] = priorities
        low, high = self._leaves + first, self._leaves + last - 1
        while high > 1:  # also where some parents are still wrong: their own parents follow later
            low, high = max(1, low // 2), high // 2
            self._sums[low : high + 1] = self._sums[2 * low : 2 * high + 2].view(-1, 2).sum(dim=1)

    def set(self, index: torch.Tensor, priorities: torch.Tensor) -> None:
        """Set the priorities of some leaves.

        Args:
            index: The leaves, of shape (n,). Of a leaf that is listed twice, the larger priority counts.
            priorities: Shape (n,).
        """
        node = index.long() + self._leaves
        self._sums.scatter_reduce_(0, node, priorities.to(self._sums.dtype), "amax", include_self=False)
        for _ in range(self._levels):
            node = (node // 2).clamp_(min=1)
            self._sums[node] = self._sums[2 * node] + self._sums[2 * node + 1]

    def draw(self, count: int) -> torch.Tensor:
        """Draw leaves in proportion to their priorities, one from each of ``count`` equal parts of the sum.

        Args:
            count: Number of leaves. A leaf can be drawn more than once.

        Returns:
            Indices of the leaves, of shape (count,).
        """
        parts = torch.arange(count, dtype=self._sums.dtype, device=self._sums.device)
        rest = (parts + torch.rand(count, dtype=parts.dtype, device=parts.device)) / count * self._sums[1]
        node = torch.ones(count, dtype=torch.int64, device=self._sums.device)
        for _ in range(self._levels):
            inner = node < self._leaves
            left = torch.where(inner, 2 * node, node)
            before, after = self._sums[left], self._sums[(left + 1).clamp_(max=2 * self._leaves - 1)]
            goes_right = inner & (rest >= before) & (after > 0.0)  # rounding leads to no leaf of priority zero
            rest = torch.where(goes_right, rest - before, rest)
            node = left + goes_right
        return node - self._leaves
