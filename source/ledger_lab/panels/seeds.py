"""From the seed of an episode to the seed of its random stream."""

from __future__ import annotations

import hashlib

TRAINING_SEED_LIMIT = 2**32
"""Training seeds are below this number: numpy takes no larger ones."""


def episode_stream(task: str, cell: str, seed: int) -> int:
    """Return the seed of an episode's random stream.

    Training draws from streams that are seeded with numbers below 2^32, an episode from one seeded with a number from
    2^62 on, so that an episode is held out by construction.

    Args:
        task: Gymnasium id of the task.
        cell: Name of the cell.
        seed: Seed of the episode.

    Returns:
        A number in [2^62, 2^63).
    """
    digest = hashlib.sha256(f"ledger_lab/episode/{task}/{cell}/{seed}".encode()).digest()
    return 2**62 | int.from_bytes(digest[:8], "big") >> 2
