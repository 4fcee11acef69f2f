"""The scaling figures of the runs of a ledger."""

from __future__ import annotations

from collections.abc import Sequence

from ledger_lab.costs import Price
from ledger_lab.ledger import Run
from ledger_lab.reports.figures.studies import DrawingGroup, draw_studies
from ledger_lab.reports.scaled_runs import scaled_runs
from ledger_lab.reports.summary import RunSummary
from ledger_lab.scaling.points import ScaledRun
from ledger_lab.scaling.studies import find_studies


def runs_of_several_sizes(
    runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None = None
) -> list[ScaledRun]:
    """Return the runs that a scaling figure may show, as points of scaling studies.

    These are the runs on a target that was trained for with several sizes. Runs that have not ended are left out: what
    they need to the target is not known yet, and a figure of them would be old when it is looked at.

    Args:
        runs: The runs.
        summaries: Their summaries, in the same order.
        price: Price that replaces the declared prices; the summaries must have been made with it.
    """
    sizes: dict[tuple[object, ...], set[tuple[int, int]]] = {}
    for each in summaries:
        sizes.setdefault(_target(each), set()).add((each.world_size, each.num_envs))
    kept = [
        (run, summary)
        for run, summary in zip(runs, summaries, strict=True)
        if len(sizes[_target(summary)]) > 1 and summary.status != "running"
    ]
    return scaled_runs([run for run, _ in kept], [summary for _, summary in kept], price)


def draw_ledger(runs: Sequence[Run], summaries: Sequence[RunSummary], price: Price | None = None) -> list[DrawingGroup]:
    """Draw the scaling studies of a ledger.

    Args:
        runs: The runs.
        summaries: Their summaries, in the same order.
        price: Price that replaces the declared prices; the summaries must have been made with it.
    """
    return draw_studies(find_studies(runs_of_several_sizes(runs, summaries, price)))


def _target(summary: RunSummary) -> tuple[object, ...]:
    """Return what the runs of one figure must have in common."""
    return summary.task, summary.physics, summary.panel_id, summary.target_success
