"""Finds runs of a cohort that do not count, because another run made the same training.

There are two cases. Something outside of a run ended it, and a later run with the same seed and configuration repeats
it, possibly on another machine. Or an earlier run made the same training, with the same code on the same machine: the
second one takes the same steps, and shows nothing new. The cost of such a run is added to that of the run that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger_lab.ledger import Status
from ledger_lab.ledger.costs import sum_if_known
from ledger_lab.reports.summary import RunSummary

Repeated = Mapping[str, tuple[RunSummary, ...]]
"""Runs that do not count, by the id of the run that stands for them."""


type Group = tuple[str | None, str]
"""Cohort and yardstick of runs."""


def cohort_groups(runs: Sequence[RunSummary]) -> dict[Group, list[RunSummary]]:
    """Return the runs by cohort and yardstick, in their order.

    Args:
        runs: Runs of a ledger.
    """
    groups: dict[Group, list[RunSummary]] = {}
    for run in runs:
        groups.setdefault((run.cohort, run.measured_by), []).append(run)
    return groups


def repeated_runs(runs: Sequence[RunSummary]) -> set[str]:
    """Return the ids of the runs that do not count, because another run made the same training.

    Args:
        runs: Runs of a ledger, oldest first.
    """
    split = (split_repeated(members)[1] for members in cohort_groups(runs).values())
    return {run.run_id for repeated in split for members in repeated.values() for run in members}


def split_repeated(runs: Sequence[RunSummary]) -> tuple[list[RunSummary], Repeated]:
    """Separate the runs of a cohort that count from those that repeat, or are repeated. Without a cohort, all count.

    Two runs of one training both count if one of them failed and the other did not: then they differ after all.

    Args:
        runs: Runs of one cohort, oldest first.

    Returns:
        The runs that count, oldest first; and the others.
    """
    kept: list[RunSummary] = []
    repeated: dict[str, tuple[RunSummary, ...]] = {}
    ended: dict[str, tuple[RunSummary, ...]] = {}
    last = {run.configuration: place for place, run in enumerate(runs)}
    first: dict[tuple[str, bool], RunSummary] = {}
    for place, run in enumerate(runs):
        if run.cohort is not None and run.unfinished and last[run.configuration] > place:
            ended[run.configuration] = (*ended.get(run.configuration, ()), run)
            continue
        standing = first.setdefault((run.training, Status(run.status).failed), run) if run.cohort is not None else run
        spent = ended.pop(run.configuration, ())
        if standing is run:
            kept.append(run)
        else:
            spent = (*spent, run)
        if spent:
            repeated[standing.run_id] = (*repeated.get(standing.run_id, ()), *spent)
    return kept, repeated


def usd_with_repeated(kept: Sequence[RunSummary], repeated: Repeated) -> list[float | None]:
    """Return the cost of each run together with the runs it stands for [USD]; ``None`` if a part of it is unknown.

    Args:
        kept: Runs that count.
        repeated: The others.
    """
    return [sum_if_known([each.billable_usd for each in (*repeated.get(run.run_id, ()), run)]) for run in kept]
