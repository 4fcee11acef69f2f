"""Test of a difference between the costs per target-reaching checkpoint of two cohorts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ledger_lab.ledger.costs.permutation import permutation_p_value

if TYPE_CHECKING:
    from numpy.typing import NDArray


def cost_p_value(a: Sequence[tuple[float, bool]], b: Sequence[tuple[float, bool]]) -> float | None:
    """Test whether spend and success of two groups of runs have the same distribution.

    The statistic is the difference of the runs that reached the target per spent USD. This is the inverse of the cost
    per target-reaching checkpoint, and finite for a group that never reached the target. The p-value is that of
    :func:`~ledger_lab.ledger.costs.permutation.permutation_p_value`.

    Args:
        a: Spend of each run of one group [USD], and whether it reached the target.
        b: The same of the other group.

    Returns:
        The two-sided p-value; ``None`` if no run reached the target, or all runs of a possible group cost nothing.

    Raises:
        ValueError: If a group has no run.
    """
    import numpy as np

    if not a or not b:
        raise ValueError("a test needs at least one run in each group")
    spends, reached = (np.array(column, dtype=float) for column in zip(*a, *b, strict=True))
    free = int((spends == 0).sum())
    if not reached.any() or free >= min(len(a), len(b)):
        return None

    def statistic(ours: NDArray[Any], theirs: NDArray[Any], axis: int = -1) -> NDArray[Any]:
        per_usd = [reached[group].sum(axis=axis) / spends[group].sum(axis=axis) for group in (ours, theirs)]
        return np.abs(per_usd[0] - per_usd[1])

    return permutation_p_value(len(a), len(b), statistic)
