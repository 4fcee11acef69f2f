"""The scaling figures of the runs of a ledger."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ledger_lab.ledger import Run
from ledger_lab.ledger.costs import Price
from ledger_lab.reports.summary import RunSummary
from ledger_lab.studies.figures.studies import DrawingGroup, draw_studies
from ledger_lab.studies.reports.scaled_runs import scaled_runs
from ledger_lab.studies.scaling import find_studies

type Target = Hashable
"""What all runs of a scaling figure have in common."""


def by_scaled_target(
    runs: Sequence[Run], summaries: Sequence[RunSummary]
) -> dict[Target, list[tuple[Run, RunSummary]]]:
    """Return the runs with targets that were trained for with several sizes.

    Args:
        runs: The runs.
        summaries: Their summaries, in the same order.

    Returns:
        The runs and summaries by target, in the order of the first runs.
    """
    groups: dict[Target, list[tuple[Run, RunSummary]]] = {}
    for run, each in zip(runs, summaries, strict=True):
        if run.attempts:  # others have measured nothing
            groups.setdefault((each.measured_by, each.physics), []).append((run, each))
    return {
        target: members
        for target, members in groups.items()
        if len({(each.world_size, each.num_envs) for _, each in members}) > 1
    }


def draw_ledger(runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None = None) -> list[DrawingGroup]:
    """Draw the scaling studies of a ledger.

    Args:
        runs: The runs.
        summaries: Their summaries, in the same order.
        price: Price that replaces the declared prices; the summaries must have been made with it.
    """
    chosen = [pair for members in by_scaled_target(runs, summaries).values() for pair in members]
    scaled = scaled_runs([run for run, _ in chosen], [summary for _, summary in chosen], price)
    return draw_studies(find_studies(scaled))
