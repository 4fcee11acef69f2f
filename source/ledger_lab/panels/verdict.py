"""When a score counts as a pass."""

from __future__ import annotations


def reaches_target(successes: int, episodes: int, target_success: float) -> bool:
    """Tell whether the share of successes reaches a target: the share itself, not its interval.

    Args:
        successes: Successful episodes.
        episodes: All episodes, at least 1.
        target_success: Target in (0, 1].
    """
    return successes / episodes >= target_success
