"""Tables of studies of algorithms, made from the reports that ``report.py --json`` wrote into ``records/``."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ledger_lab.ledger.costs.time_to_target import RunTime, median_time_to_target
from ledger_lab.ledger.libraries import dialect_of
from ledger_lab.units import duration, quantity, usd

_Run = Mapping[str, Any]
"""Figures of a run, as in the report."""

_REACHED = "reached the target"
_COLUMNS = (
    _REACHED,
    "time to the target: median (fastest to slowest)",
    "environment steps to the proven policy, median",
    "cost of all runs",
    "peak memory",
)


def algorithms_table(records: Path, name: str) -> str:
    """Return one row per algorithm and library, the fastest first, in Markdown.

    Args:
        records: The folder with the records.
        name: Name of the report in it, without its endings.
    """

    def median(runs: Sequence[_Run]) -> float:
        found = median_time_to_target(_times(runs))
        return math.inf if found.median_s is None else found.median_s

    return _table("algorithm", sorted(_arms(records, name), key=median), _algorithm)


def update_to_data_table(records: Path, name: str) -> str:
    """Return one row per number of gradient steps, in Markdown; as :func:`algorithms_table`."""
    arms = sorted(_arms(records, name), key=lambda runs: float(runs[0]["gradient_steps_per_env_step"]))

    def steps(run: _Run) -> str:
        each = run["gradient_steps_per_env_step"]
        return f"{each * run['num_envs']:g} ({1000 * each:.1f})"

    return _table("gradient steps (per 1,000 environment steps)", arms, steps)


def budget_table(records: Path, name: str) -> str:
    """Return one row per algorithm and library whose trainings had a budget; as :func:`algorithms_table`."""
    rows = [
        (
            _algorithm(runs[0]),
            _reached(runs),
            ", ".join(_best_score(run) for run in sorted(runs, key=lambda run: run["seed"])),
            _range([run["wall_s"] for run in runs], duration),
            _range([run["env_steps"] for run in runs], quantity),
            f"{1000 * runs[0]['gradient_steps_per_env_step']:.1f}",
        )
        for runs in _arms(records, name)
    ]
    titles = ("algorithm", _REACHED, "best score of each training", "time", "environment steps")
    return _markdown([(*titles, "gradient steps per 1,000 environment steps"), *rows])


def _arms(records: Path, name: str) -> list[list[_Run]]:
    """Return the runs of each arm of a study."""
    arms: dict[str, list[_Run]] = {}
    for run in json.loads(gzip.decompress((records / f"{name}.json.gz").read_bytes()))["runs"]:
        arms.setdefault(run["cohort"], []).append(run)
    return list(arms.values())


def _table(title: str, arms: Sequence[Sequence[_Run]], label: Callable[[_Run], str]) -> str:
    """Return a table with one row per arm.

    Args:
        title: Title of the first column.
        arms: The runs of each arm.
        label: Returns the first cell for a run of an arm.
    """
    return _markdown([(title, *_COLUMNS), *((label(runs[0]), *_cells(runs)) for runs in arms)])


def _markdown(rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table of rows, the first of which holds the titles."""
    titles, *others = rows
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, ("---",) * len(titles), *others))


def _algorithm(run: _Run) -> str:
    """Return the algorithm of a run, with its library."""
    return dialect_of(run["rl_library"], run["algorithm"]).learner


def _cells(runs: Sequence[_Run]) -> tuple[str, ...]:
    """Return the cells of an arm."""
    return (
        _reached(runs),
        _median_and_range(_times(runs)),
        median_words(_steps(runs), quantity),
        usd(sum(run["billable_usd"] for run in runs)),
        f"{max(run['peak_host_memory_gb'] for run in runs):.1f} GB",
    )


def _best_score(run: _Run) -> str:
    """Return the largest share of successes that a checkpoint had on the panel."""
    scores = [(each["heldout_successes"], each["heldout_episodes"]) for each in run["checkpoints"]]
    best = max((each for each in scores if None not in each), key=lambda each: each[0] / each[1], default=None)
    return "none" if best is None else f"{best[0]} of {best[1]}"


def _reached(runs: Sequence[_Run]) -> str:
    """Return how many runs reached their target."""
    return f"{sum(run['target_reached'] for run in runs)} of {len(runs)}"


def _range(figures: Sequence[float], written: Callable[[float], str]) -> str:
    """Return the smallest and the largest figure; one figure if they are written alike."""
    smallest, largest = written(min(figures)), written(max(figures))
    return smallest if smallest == largest else f"{smallest} to {largest}"


def _times(runs: Sequence[_Run]) -> list[RunTime]:
    """Return the time of each run to its target."""
    return [RunTime(wall_s=run["wall_s"], to_target_s=run["wall_to_target_s"]) for run in runs]


def _steps(runs: Sequence[_Run]) -> list[RunTime]:
    """Return the environment steps of each run to its proven policy, for the same rules as times."""
    return [
        RunTime(
            wall_s=run["env_steps"],
            to_target_s=next((each["env_steps"] for each in run["checkpoints"] if each["proven"]), None),
        )
        for run in runs
    ]


def median_words(figures: Sequence[RunTime], written: Callable[[float], str]) -> str:
    """Return the median over all runs; those that missed the target have larger figures."""
    found = median_time_to_target(figures)
    if found.median_s is None:
        assert found.more_than_s is not None
        return f"> {written(found.more_than_s)}"
    return ("" if found.is_exact else "≈ ") + written(found.median_s)


def _median_and_range(times: Sequence[RunTime]) -> str:
    """Return the median and the range of times."""
    if all(time.to_target_s is None for time in times):
        return median_words(times, duration)
    slowest = max(times, key=lambda time: (time.to_target_s is None, time.observed_s))
    more = "more than " if slowest.to_target_s is None else ""
    fastest = min(time.observed_s for time in times if time.to_target_s is not None)
    return f"{median_words(times, duration)} ({duration(fastest)} to {more}{duration(slowest.observed_s)})"
