"""The gradient noise scale: at which batch the noise of a gradient is as large as the gradient itself.

Processes that average their gradients give it nearly for free: the norm of one process's gradient has the noise of its
own samples, and the norm of the average has that of all samples (McCandlish et al. 2018, appendix A.1). Below this
batch, more samples make a step better; far above it, they are wasted. It predicts the critical batch only roughly.
"""

from __future__ import annotations

import numpy as np

from ledger_lab.ledger.costs.bootstrap import percentile_levels
from ledger_lab.studies.scaling.laws import Figure
from ledger_lab.studies.scaling.positive_fit import Floats

FEWEST_BLOCKS = 8
"""Fewest blocks of consecutive steps for an interval."""

_MOST_BLOCKS = 1000
"""Most blocks that are resampled. With more, successive blocks are joined, so that a long training takes no more
memory."""
_DRAWS = 2000


def gradient_noise_scale(own: Floats, average: Floats, batch: int, *, block: int, seed: int = 0) -> Figure:
    """Estimate the noise scale of a stretch of a training.

    Args:
        own: Squared norm of each process's gradient; shape (steps, processes), at least two processes.
        average: Squared norm of the average gradient of all processes; shape (steps,).
        batch: Samples that one process computes its gradient from.
        block: Consecutive steps that belong together, as the steps of an iteration do: their samples are the same.
        seed: Seed of the interval's random numbers.

    Returns:
        The noise scale [samples]. It is infinite, as may be the end of its interval, if no gradient is left under the
        noise. There is no interval with fewer than :data:`FEWEST_BLOCKS` blocks.

    Raises:
        ValueError: If the shapes do not match, or there is only one process.
    """
    steps, processes = own.shape
    if processes < 2 or average.shape != (steps,) or not 1 <= block <= steps:
        raise ValueError(f"{own.shape} and {average.shape} norms in blocks of {block}: no two processes to compare")
    noise = (own.mean(axis=1) - average) * batch * processes / (processes - 1)
    signal = (processes * average - own.mean(axis=1)) / (processes - 1)
    value = float(_ratios(noise.mean()[None], signal.mean()[None])[0])
    block = max(block, -(-steps // _MOST_BLOCKS))
    blocks = steps // block
    if blocks < FEWEST_BLOCKS:
        return Figure(value=value, interval=None)
    sums = np.stack([part[: blocks * block].reshape(blocks, block).sum(axis=1) for part in (noise, signal)])
    chosen = np.random.default_rng(seed).integers(blocks, size=(_DRAWS, blocks))
    low, high = np.quantile(_ratios(*sums[:, chosen].sum(axis=2)), percentile_levels(blocks), method="inverted_cdf")
    return Figure(value=value, interval=(float(low), float(high)))


def _ratios(noise: Floats, signal: Floats) -> Floats:
    """Return noise ÷ signal; infinite where the signal is not positive, 0 where the noise is not."""
    seen = signal > 0
    return np.where(seen, np.maximum(noise, 0.0) / np.where(seen, signal, 1.0), np.inf)
