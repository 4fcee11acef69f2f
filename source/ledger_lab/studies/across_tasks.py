"""Arms of a study over several tasks: aggregate figures of how soon their runs reach the target.

Their definitions are those of Agarwal et al. (2021, Deep RL at the Edge of the Statistical Precipice, NeurIPS 34).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from ledger_lab.ledger.costs import FEWEST_RUNS, exact_interval, percentile_levels

type Scores = Sequence[NDArray[np.float64]]
"""One array per task, of shape (…, runs). Leading dimensions are those of resamples."""

_RESAMPLES = 2000
THRESHOLDS = (0.25, 0.5, 0.75)
"""Speeds at which the performance profile is shown."""


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """A figure over all tasks with its interval."""

    value: float
    interval: tuple[float, float] | None
    """95 % interval: exact for a share of runs, otherwise by a stratified bootstrap. ``None`` with fewer than
    :data:`~ledger_lab.ledger.costs.FEWEST_RUNS` runs on a task, and if all resamples are equal."""

    def __str__(self) -> str:
        """Return the figure with two digits."""
        shown = "" if self.interval is None else f" [{self.interval[0]:.2f}, {self.interval[1]:.2f}]"
        return f"{self.value:.2f}{shown}"


@dataclass(frozen=True, kw_only=True)
class ArmAcrossTasks:
    """Aggregate figures of an arm."""

    name: str
    runs: int
    """Runs on all tasks."""
    speed: Aggregate
    """Interquartile mean of the speeds."""
    profile: tuple[Aggregate, ...]
    """Share of runs with a speed above each of :data:`THRESHOLDS`."""
    better_than_first: Aggregate | None
    """Probability that a run is faster than a run of the first arm; ``None`` for the first arm."""


def aggregate_arms(times: Mapping[str, Sequence[Sequence[float | None]]]) -> list[ArmAcrossTasks] | None:
    """Aggregate arms over tasks.

    The score of a run is its *speed*: the shortest time to the target of any run on the task ÷ the run's own time; 0
    for a run that missed the target. This is the inverse of the performance ratio of Dolan & Moré (2002, Mathematical
    Programming 91:201). It makes tasks of different duration comparable.

    Args:
        times: For each arm and task, the time of each run to the target [s]; ``None`` for a run that missed it.

    Returns:
        The arms, in the given order; ``None`` if an arm has no run on some task, or no run of any arm reached the
        target on some task.
    """
    by_task = [[each for runs in task for each in runs] for task in zip(*times.values(), strict=True)]
    if not all(runs for arm in times.values() for runs in arm):
        return None
    if any(all(each is None for each in task) for task in by_task):
        return None
    best_s = [min(each for each in task if each is not None) for task in by_task]
    speeds = {
        name: [
            np.array([0.0 if each is None else best / each for each in runs])
            for runs, best in zip(arm, best_s, strict=True)
        ]
        for name, arm in times.items()
    }
    return [_aggregate_arm(name, scores, next(iter(speeds.values()))) for name, scores in speeds.items()]


def _aggregate_arm(name: str, speeds: list[NDArray[np.float64]], first: list[NDArray[np.float64]]) -> ArmAcrossTasks:
    """Aggregate one arm."""
    few = min(len(runs) for runs in (*speeds, *first)) < FEWEST_RUNS

    def of(figure: Callable[..., NDArray[np.float64]], *arms: list[NDArray[np.float64]]) -> Aggregate:
        return Aggregate(value=float(figure(*arms)), interval=None if few else stratified_interval(figure, *arms))

    def share_above(threshold: float) -> Aggregate:
        share, runs = float(performance_profile(speeds, threshold)), sum(map(len, speeds))
        return Aggregate(value=share, interval=None if few else exact_interval(round(share * runs), runs))

    return ArmAcrossTasks(
        name=name,
        runs=sum(map(len, speeds)),
        speed=of(interquartile_mean, speeds),
        profile=tuple(share_above(threshold) for threshold in THRESHOLDS),
        better_than_first=None if speeds is first else of(probability_of_improvement, speeds, first),
    )


def across_tasks_table(arms: Sequence[ArmAcrossTasks]) -> Table:
    """Return the aggregate figures as a table for the terminal.

    Args:
        arms: The arms.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("arm")
    titles = ["runs", "speed (IQM)", *(f"speed > {each:g}" for each in THRESHOLDS)]
    if len(arms) > 1:
        titles.append(f"faster than {arms[0].name}")
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for arm in arms:
        cells = [str(arm.runs), *map(str, (arm.speed, *arm.profile))]
        if len(arms) > 1:
            cells.append("" if arm.better_than_first is None else str(arm.better_than_first))
        table.add_row(arm.name, *cells)
    return table


def across_tasks_notes(arms: Sequence[ArmAcrossTasks], tasks: int) -> list[str]:
    """Return what the figures mean, one line each.

    Args:
        arms: The arms.
        tasks: Number of tasks.
    """
    several = len(arms) > 1
    notes = [
        f"over {tasks} tasks; speed: shortest time to target of all runs on the task ÷ time to target of the run, 0 "
        "for a run that missed the target",
        "IQM: mean of the middle half of all runs; speed > x: share of runs"
        + (f"; faster than {arms[0].name}: probability for two runs on the same task" if several else ""),
    ]
    shown = any(figure.interval is not None for arm in arms for figure in (arm.speed, *arm.profile))
    notes.append(
        "in brackets 95 % intervals (exact for shares, otherwise by a bootstrap over the runs of each task), not "
        "corrected for the number of arms"
        if shown
        else f"no intervals below {FEWEST_RUNS} runs of each arm on each task"
    )
    return notes


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
