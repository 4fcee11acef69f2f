"""Aggregate figures over several tasks.

Their definitions are those of Agarwal et al. (2021, Deep RL at the Edge of the Statistical Precipice, NeurIPS 34).
Scores are lists with one array per task, of shape (…, runs). Leading dimensions are those of resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = Sequence[NDArray[np.float64]]

_RESAMPLES = 2000


def interquartile_mean(scores: Scores) -> NDArray[np.float64]:
    """Return the mean of the middle half of all runs of all tasks; shape (…).

    Args:
        scores: Scores of an arm.
    """
    import numpy as np
    from scipy.stats import trim_mean  # takes a second to load

    return np.asarray(trim_mean(np.concatenate(scores, axis=-1), 0.25, axis=-1))


def probability_of_improvement(scores: Scores, others: Scores) -> NDArray[np.float64]:
    """Return the probability that a run is better than a run of another arm, as the mean over the tasks; shape (…).

    Equal scores count one half.

    Args:
        scores: Scores of an arm.
        others: Scores of the other arm on the same tasks.
    """
    import numpy as np

    wins = []
    for ours, theirs in zip(scores, others, strict=True):
        difference = ours[..., :, None] - theirs[..., None, :]
        wins.append((0.5 + 0.5 * np.sign(difference)).mean(axis=(-2, -1)))
    return np.asarray(np.mean(wins, axis=0))


def performance_profile(scores: Scores, threshold: float) -> NDArray[np.float64]:
    """Return the share of all runs of all tasks with a score above a threshold; shape (…).

    Args:
        scores: Scores of an arm.
        threshold: The threshold.
    """
    import numpy as np

    return np.asarray((np.concatenate(scores, axis=-1) > threshold).mean(axis=-1))


def stratified_interval(
    figure: Callable[..., NDArray[np.float64]], *arms: Scores, seed: int = 0
) -> tuple[float, float] | None:
    """Return the 95 % interval of a figure, by a stratified bootstrap: the runs of each task are resampled.

    The ends are percentiles of the resamples. A bootstrap divides by n instead of n - 1, so the percentiles are closer
    to 0 % and 100 % than the usual ones (:func:`~ledger_lab.ledger.costs.percentile_levels`).

    Args:
        figure: Takes the scores of each arm.
        arms: Scores of each arm.
        seed: Seed of the bootstrap.

    Returns:
        Lower and upper end. ``None`` if all resamples are equal: then the runs say nothing about the spread of the
        figure. This happens, for example, if every run of one arm is better than every run of the other.
    """
    import numpy as np

    from ledger_lab.ledger.costs import percentile_levels

    generator = np.random.default_rng(seed)

    def resampled(runs: NDArray[np.float64]) -> NDArray[Any]:
        return runs[generator.integers(len(runs), size=(_RESAMPLES, len(runs)))]

    drawn = figure(*([resampled(np.asarray(runs)) for runs in scores] for scores in arms))
    if np.ptp(drawn) == 0:
        return None
    fewest = min(len(runs) for scores in arms for runs in scores)
    low, high = np.quantile(drawn, percentile_levels(fewest))
    return float(low), float(high)
