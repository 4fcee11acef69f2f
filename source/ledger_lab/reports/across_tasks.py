"""Arms of a study over several tasks: aggregate figures of how soon their runs reach the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from ledger_lab.ledger.costs import FEWEST_RUNS, exact_interval
from ledger_lab.studies.declared.aggregates import (
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    stratified_interval,
)

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
