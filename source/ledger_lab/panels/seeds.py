"""From the seed of an episode to the seed of its random stream."""

from __future__ import annotations

import hashlib

TRAINING_SEED_LIMIT = 2**31
"""Training seeds are below this number."""


def episode_stream(task: str, cell: str, seed: int) -> int:
    """Return the seed of an episode's random stream.

    Training draws from streams that are seeded with numbers below 2^31. In an episode's seed the bit 31 is always set,
    so that an episode is held out by construction, even on the CPU, where torch's generator looks at the lower 32 bits
    alone.

    Args:
        task: Gymnasium id of the task.
        cell: Name of the cell.
        seed: Seed of the episode.

    Returns:
        A number in [2^62, 2^63) with bit 31 set.
    """
    digest = hashlib.sha256(f"ledger_lab/episode/{task}/{cell}/{seed}".encode()).digest()
    return 2**62 | 2**31 | int.from_bytes(digest[:8], "big") >> 2
