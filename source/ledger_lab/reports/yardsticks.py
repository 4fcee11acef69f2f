"""Groups of runs that measure the same thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.reports.summary import RunSummary


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """Task, panel and target of a group of runs. Figures of two yardsticks are never mixed."""

    task: str
    panel: str
    panel_id: str
    target_success: float
    episodes: int | None
    """Held-out episodes of a panel; ``None`` if none was ever scored."""


def by_yardstick(summaries: Sequence[RunSummary]) -> list[tuple[Yardstick, list[RunSummary]]]:
    """Return the yardsticks of some runs with their runs, in the order of their first runs.

    Args:
        summaries: The runs.
    """
    groups: dict[tuple[str, str, float], list[RunSummary]] = {}
    for summary in summaries:
        groups.setdefault((summary.task, summary.panel_id, summary.target_success), []).append(summary)
    return [
        (
            Yardstick(
                task=task,
                panel=members[0].panel,
                panel_id=panel_id,
                target_success=target,
                episodes=next((m.heldout_episodes for m in members if m.heldout_episodes is not None), None),
            ),
            members,
        )
        for (task, panel_id, target), members in groups.items()
    ]
