"""Groups of runs that measure the same thing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
