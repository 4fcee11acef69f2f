"""Seeds of episodes, and the keys of their random streams."""

from __future__ import annotations

import hashlib
from typing import Literal

PANEL_SEED_LIMIT = 2**32
"""Seeds in a panel file are below this number; seeds of confirmations are not."""

_CONFIRMATION_SEEDS = 2**52 - PANEL_SEED_LIMIT

type Purpose = Literal["startup", "episode", "condition", "disturbance", "ground"]
"""Purpose of a stream: the task's start-up randomization, the task's draws within an episode, a cell's perturbations
that stay constant in an episode, its perturbations that vary within an episode, or held-out ground."""


def stream_key(purpose: Purpose, task: str, seed: int, cell: str = "") -> int:
    """Return the key of one random stream of an episode.

    The task's own draws don't depend on the cell. An episode therefore starts alike in every cell, and cells can be
    compared seed by seed.

    Args:
        purpose: Purpose of the stream.
        task: Gymnasium id of the task.
        seed: Seed of the episode.
        cell: Name of the cell, for the draws of the cell itself; empty for the draws of the task.

    Returns:
        A number below 2^64.
    """
    digest = hashlib.sha256(f"ledger_lab/stream/{purpose}/{task}/{cell}/{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def confirmation_seeds(run_id: str, confirmation: int, count: int, extension: int = 0) -> tuple[int, ...]:
    """Draw the fresh seeds of a panel of a run's confirmation.

    No panel file has any of these seeds. Two panels of confirmations share a seed only if two hashes collide.

    Args:
        run_id: The run.
        confirmation: Number of the confirmation in the run, from 1.
        count: Seeds to draw.
        extension: Number of the panel within the confirmation, from 0.

    Returns:
        Different numbers in [2^32, 2^52).
    """
    panel = f"{confirmation}.{extension}" if extension else str(confirmation)
    seeds: dict[int, None] = {}
    position = 0
    while len(seeds) < count:
        text = f"ledger_lab/confirmation/{run_id}/{panel}/{position}"
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        seeds[PANEL_SEED_LIMIT + number % _CONFIRMATION_SEEDS] = None
        position += 1
    return tuple(seeds)
