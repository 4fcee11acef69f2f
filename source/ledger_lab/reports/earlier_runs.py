"""Earlier runs: those whose checkpoints the runs of a cohort began with, and their spend."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ledger_lab.ledger import Run

if TYPE_CHECKING:
    from ledger_lab.reports.summary import RunSummary


def find_earlier_runs(summaries: Sequence[RunSummary], find: Callable[[Mapping[str, Any]], Run | None]) -> list[Run]:
    """Return the runs whose checkpoints some runs began with, directly or through further runs; each of them once.

    Args:
        summaries: The runs that began with checkpoints. They are left out of the result.
        find: Takes the field ``began_from`` of a declaration, and returns the run of the checkpoint if it is known.
    """
    own, found = {summary.run_id for summary in summaries}, dict[str, Run]()
    pending = [summary.began_from for summary in summaries]
    while pending:
        began = pending.pop()
        if began is None or began["run_id"] in own or began["run_id"] in found:
            continue
        if (earlier := find(began)) is not None:
            found[earlier.run_id] = earlier
            pending.append(earlier.declared.began_from)
    return [*found.values()]


@dataclass(frozen=True)
class EarlierRuns:
    """What is known about the earlier runs."""

    summaries: Mapping[str, RunSummary] = field(default_factory=dict)
    """Earlier runs whose rows are at hand, by run id, with their costs at the price of the report."""
    repriced: bool = False
    """Whether the report was asked for another price than the declared one."""

    def spend_usd(self, members: Sequence[RunSummary]) -> float | None:
        """Return the spend of all earlier runs of some runs, each of them once [USD].

        If the rows of an earlier run are not at hand, its spend is what the declaration of the later run records. That
        spend was computed at the declared prices, and includes the runs that are earlier still.

        Args:
            members: The runs that began with checkpoints.

        Returns:
            0 if there is none; ``None`` if the spend of one of them is unknown, or unknown at the requested price.
        """
        own = {member.run_id for member in members}
        found: dict[str, float | None] = {}
        pending = [member.began_from for member in members]
        while pending:
            began = pending.pop()
            if began is None or (run_id := began["run_id"]) in own:
                continue
            known = self.summaries.get(run_id)
            if known is None:
                amount = None if self.repriced else began["usd"]
                earlier = found.setdefault(run_id, amount)  # the same run may have spent more when a later one began
                found[run_id] = None if amount is None or earlier is None else max(amount, earlier)
            elif run_id not in found:
                found[run_id] = known.billable_usd
                pending.append(known.began_from)
        amounts = [amount for amount in found.values() if amount is not None]
        return math.fsum(amounts) if len(amounts) == len(found) else None
