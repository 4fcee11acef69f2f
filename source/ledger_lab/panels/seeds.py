"""From the seed of an episode to the keys of its random streams."""

from __future__ import annotations

import hashlib
from typing import Literal

PANEL_SEED_LIMIT = 2**32
"""Seeds that a panel names are below this number; those of confirmations are drawn above it."""

_CONFIRMATION_SEEDS = 2**52 - PANEL_SEED_LIMIT

type Purpose = Literal["startup", "episode", "condition", "disturbance"]
"""What a stream is for: the task's start-up randomization, everything the task draws in an episode, what a cell does to
the whole of it, and what it does along the way."""


def stream_key(purpose: Purpose, task: str, seed: int, cell: str = "") -> int:
    """Return the key of one random stream of an episode.

    The task's own draws don't depend on the cell, so that an episode starts alike in every cell and cells are compared
    seed by seed.

    Args:
        purpose: What the stream is for.
        task: Gymnasium id of the task.
        seed: Seed of the episode.
        cell: Name of the cell, for what the cell itself draws.

    Returns:
        A number below 2^64.
    """
    digest = hashlib.sha256(f"ledger_lab/stream/{purpose}/{task}/{cell}/{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def confirmation_seeds(run_id: str, confirmation: int, count: int) -> tuple[int, ...]:
    """Draw the fresh seeds of a run's confirmation.

    No panel has any of them. That two confirmations share one is as likely as a collision of two hashes.

    Args:
        run_id: The run.
        confirmation: Number of the confirmation in the run, from 1.
        count: Seeds to draw.

    Returns:
        Different numbers in [2^32, 2^52).
    """
    seeds: dict[int, None] = {}
    position = 0
    while len(seeds) < count:
        text = f"ledger_lab/confirmation/{run_id}/{confirmation}/{position}"
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        seeds[PANEL_SEED_LIMIT + number % _CONFIRMATION_SEEDS] = None
        position += 1
    return tuple(seeds)
