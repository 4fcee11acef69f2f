"""Arms of a study over several tasks: aggregate figures of how soon their runs reach the target.

Their definitions are those of Agarwal et al. (2021, Deep RL at the Edge of the Statistical Precipice, NeurIPS 34).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS
from ledger_lab.ledger.costs.few_runs import exact_interval, percentile_levels

type Scores = Sequence[NDArray[np.float64]]
"""One array per task, of shape (…, runs). Leading dimensions are those of resamples."""

_RESAMPLES = 2000
_THRESHOLDS = (0.25, 0.5, 0.75)
"""Speeds at which the performance profile is shown."""


def across_tasks(times: Mapping[str, Sequence[Sequence[float | None]]]) -> tuple[list[str], Table] | None:
    """Return the aggregate figures of arms over tasks as a table for the terminal, and what they mean, one line each.

    The score of a run is its *speed*: the shortest time to the target of any run on the task ÷ the run's own time; 0
    for a run that missed the target. This is the inverse of the performance ratio of Dolan & Moré (2002, Mathematical
    Programming 91:201). It makes tasks of different duration comparable.

    Args:
        times: For each arm and task, the time of each run to the target [s]; ``None`` for a run that missed it.

    Returns:
        ``None`` if an arm has no run on some task, or no run of any arm reached the target on some task.
    """
    by_task = [[each for runs in task for each in runs] for task in zip(*times.values(), strict=True)]
    fewest = min(len(runs) for arm in times.values() for runs in arm)
    if not fewest or any(all(each is None for each in task) for task in by_task):
        return None
    best_s = [min(each for each in task if each is not None) for task in by_task]
    speeds = {
        name: [
            np.array([0.0 if each is None else best / each for each in runs])
            for runs, best in zip(arm, best_s, strict=True)
        ]
        for name, arm in times.items()
    }
    (first_name, first), several, few = next(iter(speeds.items())), len(speeds) > 1, fewest < FEWEST_RUNS
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("arm")
    titles = ["runs", "speed (IQM)", *(f"speed > {each:g}" for each in _THRESHOLDS)]
    for title in [*titles, f"faster than {first_name}"] if several else titles:
        table.add_column(title, justify="right", no_wrap=True)
    for name, own in speeds.items():
        count = sum(map(len, own))
        cells = [str(count), _estimate(interquartile_mean, own, few=few)]
        for threshold in _THRESHOLDS:
            share = float(performance_profile(own, threshold))
            cells.append(_words(share, None if few else exact_interval(round(share * count), count)))
        if several:
            cells.append("" if own is first else _estimate(probability_of_improvement, own, first, few=few))
        table.add_row(name, *cells)
    notes = [
        f"over {len(best_s)} tasks; speed: shortest time to target of all runs on the task ÷ time to target of the "
        "run, 0 for a run that missed the target",
        "IQM: mean of the middle half of all runs; speed > x: share of runs"
        + (f"; faster than {first_name}: probability for two runs on the same task" if several else ""),
        f"no intervals below {FEWEST_RUNS} runs of each arm on each task"
        if few
        else "in brackets 95 % intervals (exact for shares, otherwise by a bootstrap over the runs of each task), not "
        "corrected for the number of arms",
    ]
    return notes, table


def _estimate(figure: Callable[..., NDArray[np.float64]], *arms: Scores, few: bool) -> str:
    """Return a figure with its interval by a bootstrap; without one if there are few runs."""
    return _words(float(figure(*arms)), None if few else stratified_interval(figure, *arms))


def _words(value: float, interval: tuple[float, float] | None) -> str:
    """Return a figure with two digits, and its interval if it has one."""
    return f"{value:.2f}" if interval is None else f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def interquartile_mean(scores: Scores) -> NDArray[np.float64]:
    """Return the mean of the middle half of all runs of all tasks; shape (…).

    Args:
        scores: Scores of an arm.
    """
    from scipy.stats import trim_mean  # takes a second to load

    return np.asarray(trim_mean(np.concatenate(scores, axis=-1), 0.25, axis=-1))


def probability_of_improvement(scores: Scores, others: Scores) -> NDArray[np.float64]:
    """Return the probability that a run is better than a run of another arm, as the mean over the tasks; shape (…).

    Equal scores count one half.

    Args:
        scores: Scores of an arm.
        others: Scores of the other arm on the same tasks.
    """
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
    generator = np.random.default_rng(seed)

    def resampled(runs: NDArray[np.float64]) -> NDArray[np.float64]:
        return runs[generator.integers(len(runs), size=(_RESAMPLES, len(runs)))]

    drawn = figure(*([resampled(np.asarray(runs)) for runs in scores] for scores in arms))
    if np.ptp(drawn) == 0:
        return None
    fewest = min(len(runs) for scores in arms for runs in scores)
    low, high = np.quantile(drawn, percentile_levels(fewest))
    return float(low), float(high)
