"""Groups of runs that measure the same thing, and the runs of a cohort that do not count.

A run does not count if another run made the same training. There are two cases. Something outside of a run ended it,
and a later run with the same seed and configuration repeats it, possibly on another machine. Or an earlier run made the
same training, with the same code on the same machine: the second one takes the same steps, and shows nothing new. The
cost of such a run is added to that of the run that counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ledger_lab.ledger import Status
from ledger_lab.ledger.costs import sum_if_known
from ledger_lab.reports.summary import RunSummary


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """What a group of runs is measured with. Figures of two yardsticks are never mixed."""

    fields: str
    """As :attr:`~ledger_lab.reports.summary.RunSummary.measured_by`."""
    task: str
    panel: str
    panel_id: str
    target_success: float
    rules: str
    """In which other rules it differs from yardsticks with the same task, panel and target; empty if there are none."""
    episodes: int | None
    """Held-out episodes of a panel; ``None`` if none was ever scored."""


def by_yardstick(summaries: Sequence[RunSummary]) -> list[tuple[Yardstick, list[RunSummary]]]:
    """Return the yardsticks of some runs with their runs, in the order of their first runs.

    Args:
        summaries: The runs.
    """
    groups: dict[str, list[RunSummary]] = {}
    for summary in summaries:
        groups.setdefault(summary.measured_by, []).append(summary)
    return [
        (
            Yardstick(
                fields=fields,
                task=members[0].task,
                panel=members[0].panel,
                panel_id=members[0].panel_id,
                target_success=members[0].target_success,
                rules=_rules(fields, groups),
                episodes=next((m.heldout_episodes for m in members if m.heldout_episodes is not None), None),
            ),
            members,
        )
        for fields, members in groups.items()
    ]


def _rules(fields: str, groups: Iterable[str]) -> str:
    """Return the rules of a yardstick in which it differs from others with the same task, panel and target."""
    own, *others = map(json.loads, (fields, *groups))
    alike = [each for each in others if all(each[name] == own[name] for name in ("task", "panel_id", "target_success"))]
    return ", ".join(f"{name} {value}" for name, value in own.items() if any(each[name] != value for each in alike))


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
