"""Scaling of the learning rate with the batch size."""

from __future__ import annotations

import math


def scaled_learning_rate(learning_rate: float, batch: int, reference: int) -> float:
    """Scale a learning rate by √2 per doubling of the batch (Krizhevsky 2014, arXiv:1404.5997).

    This keeps the variance of a gradient step when gradients are averaged over more samples.

    Args:
        learning_rate: Learning rate for the reference batch.
        batch: Effective batch: samples that the gradient steps of one iteration see.
        reference: The effective batch that the learning rate was chosen for.

    Returns:
        The learning rate for the batch, to four digits.
    """
    return float(f"{learning_rate * math.sqrt(batch / reference):.4g}")
