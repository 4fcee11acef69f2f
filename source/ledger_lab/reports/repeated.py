"""Runs that were ended from outside, and that a later run with the same training seed repeats.

They say nothing about the time to the target, because nobody knows how they would have gone on. Only their cost counts:
it is part of the cost of the run that repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger_lab.costs import sum_if_known
from ledger_lab.reports.summary import RunSummary

Repeated = Mapping[int, tuple[RunSummary, ...]]
"""Repeated runs, by their training seed."""


type Group = tuple[str | None, str, str, float]
"""Cohort, task, panel and target of runs."""


def cohort_groups(runs: Sequence[RunSummary]) -> dict[Group, list[RunSummary]]:
    """Return the runs by cohort, task, panel and target, in their order.

    Args:
        runs: Runs of a ledger.
    """
    groups: dict[Group, list[RunSummary]] = {}
    for run in runs:
        groups.setdefault((run.cohort, run.task, run.panel_id, run.target_success), []).append(run)
    return groups


def repeated_runs(runs: Sequence[RunSummary]) -> set[str]:
    """Return the ids of the runs that a later run repeats.

    Args:
        runs: Runs of a ledger, oldest first.
    """
    split = (split_repeated(members)[1] for members in cohort_groups(runs).values())
    return {run.run_id for repeated in split for members in repeated.values() for run in members}


def split_repeated(runs: Sequence[RunSummary]) -> tuple[list[RunSummary], Repeated]:
    """Separate the runs of a cohort from those that a later run repeats. Without a cohort, no run repeats another one.

    Args:
        runs: Runs of one cohort, oldest first.

    Returns:
        The runs that are not repeated, oldest first; and the repeated runs.
    """
    kept: list[RunSummary] = []
    repeated: dict[int, tuple[RunSummary, ...]] = {}
    for place, run in enumerate(runs):
        if run.unfinished and run.cohort is not None and any(later.seed == run.seed for later in runs[place + 1 :]):
            repeated[run.seed] = (*repeated.get(run.seed, ()), run)
        else:
            kept.append(run)
    return kept, repeated


def usd_with_repeated(kept: Sequence[RunSummary], repeated: Repeated) -> list[float | None]:
    """Return the cost of each run together with the runs that it repeats [USD]; ``None`` if a part of it is unknown.

    Args:
        kept: Runs that are not repeated.
        repeated: Repeated runs. If several runs have their seed, their cost counts with the first one.
    """
    left = dict(repeated)
    return [sum_if_known([each.billable_usd for each in (*left.pop(run.seed, ()), run)]) for run in kept]
