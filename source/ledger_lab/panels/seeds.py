"""Seeds of episodes, and the keys of their random streams."""

from __future__ import annotations

import hashlib
from typing import Literal

PANEL_SEED_LIMIT = 2**32
"""Seeds in a panel file are below this number; fresh seeds that this module draws are not."""

_FRESH_SEEDS = 2**52 - PANEL_SEED_LIMIT

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


def proof_seeds(run_id: str, proof: int, count: int, extension: int = 0) -> tuple[int, ...]:
    """Draw the fresh seeds of a panel of a run's proof.

    No panel file has any of these seeds. Two panels of proofs share a seed only if two hashes collide.

    Args:
        run_id: The run.
        proof: Number of the proof in the run, from 1.
        count: Seeds to draw.
        extension: Number of the panel within the proof, from 0.

    Returns:
        Different numbers in [2^32, 2^52).
    """
    panel = f"{proof}.{extension}" if extension else str(proof)
    return _fresh_seeds(f"confirmation/{run_id}/{panel}", count)


def comparison_seeds(first: str, second: str, count: int) -> tuple[int, ...]:
    """Draw the fresh seeds on which two policies are compared.

    The seeds depend on both policies and on nothing else. So neither policy was selected on them, a comparison with a
    third policy has other seeds, and a repeated comparison has the same episodes. No panel file has any of these seeds,
    and no proof has them, unless two hashes collide.

    Args:
        first: SHA-256 of the checkpoint of one policy.
        second: SHA-256 of the checkpoint of the other policy. The order makes no difference.
        count: Seeds to draw.

    Returns:
        Different numbers in [2^32, 2^52).
    """
    return _fresh_seeds("comparison/" + "/".join(sorted((first, second))), count)


def _fresh_seeds(purpose: str, count: int) -> tuple[int, ...]:
    """Draw different seeds in [2^32, 2^52) that depend on a text."""
    seeds: dict[int, None] = {}
    position = 0
    while len(seeds) < count:
        text = f"ledger_lab/{purpose}/{position}"
        number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        seeds[PANEL_SEED_LIMIT + number % _FRESH_SEEDS] = None
        position += 1
    return tuple(seeds)
