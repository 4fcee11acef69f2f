"""The Pareto front of time and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def pareto_front[Item](items: Sequence[Item], read: Callable[[Item], tuple[float, float] | None]) -> list[Item]:
    """Return the items that no other item beats: none is at least as fast and as cheap, and better in one of the two.

    Args:
        items: What is compared.
        read: Returns the time and the cost of an item, in any units; None if one of them is unknown.

    Returns:
        The fastest first, without the items whose time or cost is unknown.
    """
    known = [(figures, item) for item in items if (figures := read(item)) is not None]
    return [
        item
        for (time, cost), item in sorted(known, key=lambda each: each[0])
        if not any(t <= time and c <= cost and (t, c) != (time, cost) for (t, c), _ in known)
    ]
