"""Tables of studies of algorithms, made from the reports that ``report.py --json`` wrote into ``records/``."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ledger_lab.costs import RunTime, median_time_to_target
from ledger_lab.units import duration, quantity, usd

_Run = Mapping[str, Any]
"""Figures of a run, as in the report."""

_LIBRARIES = {"rsl_rl": "RSL-RL", "rl_games": "rl_games", "skrl": "SKRL"}
_COLUMNS = (
    "reached the target",
    "time to the target: median (fastest to slowest)",
    "environment steps to the confirmed policy, median",
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

    arms = sorted(_arms(records, name), key=median)
    return _table("algorithm", arms, lambda run: f"{run['algorithm'].upper()} of {_LIBRARIES[run['rl_library']]}")


def update_to_data_table(records: Path, name: str) -> str:
    """Return one row per number of gradient steps, in Markdown; as :func:`algorithms_table`."""
    arms = sorted(_arms(records, name), key=lambda runs: float(runs[0]["gradient_steps_per_env_step"]))

    def steps(run: _Run) -> str:
        each = run["gradient_steps_per_env_step"]
        return f"{each * run['num_envs']:g} ({1000 * each:.1f})"

    return _table("gradient steps (per 1,000 environment steps)", arms, steps)


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
    lines = [(title, *_COLUMNS), ("---",) * (1 + len(_COLUMNS)), *((label(runs[0]), *_cells(runs)) for runs in arms)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(runs: Sequence[_Run]) -> tuple[str, ...]:
    """Return the cells of an arm."""
    reached = [run for run in runs if run["target_reached"]]
    return (
        f"{len(reached)} of {len(runs)}",
        _median_and_range(_times(runs)),
        median_words(_steps(runs), quantity),
        usd(sum(run["billable_usd"] for run in runs)),
        f"{max(run['peak_host_memory_gb'] for run in runs):.1f} GB",
    )


def _times(runs: Sequence[_Run]) -> list[RunTime]:
    """Return the time of each run to its target."""
    return [RunTime(wall_s=run["wall_s"], to_target_s=run["wall_to_target_s"]) for run in runs]


def _steps(runs: Sequence[_Run]) -> list[RunTime]:
    """Return the environment steps of each run to its confirmed policy, for the same rules as times."""
    return [
        RunTime(
            wall_s=run["env_steps"],
            to_target_s=next((each["env_steps"] for each in run["checkpoints"] if each["confirmed"]), None),
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
    slowest = max(times, key=lambda time: (time.to_target_s is None, time.observed_s))
    more = "more than " if slowest.to_target_s is None else ""
    fastest = min(time.observed_s for time in times if time.to_target_s is not None)
    return f"{median_words(times, duration)} ({duration(fastest)} to {more}{duration(slowest.observed_s)})"
