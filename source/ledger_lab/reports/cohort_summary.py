"""Figures of a cohort, computed from those of its runs, and of the runs that they began with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ledger_lab.ledger import Cohort, Run, RunDeclared, Status, costs
from ledger_lab.ledger.comparability import differing, settings
from ledger_lab.panels.intervals import false_pass_bound
from ledger_lab.reports import cells
from ledger_lab.reports.columns import Shown, figure, summarize
from ledger_lab.reports.groups import cohort_groups, repeated_runs, split_repeated, usd_with_repeated
from ledger_lab.reports.summary import RunSummary


@dataclass(frozen=True)
class Contents:
    """The requested runs of a ledger, with their figures."""

    runs: Sequence[Run]
    summaries: Sequence[RunSummary]
    """One per run, in the same order."""
    cohorts: Sequence[CohortSummary]


@dataclass(frozen=True)
class EarlierRuns:
    """What is known about the runs whose checkpoints other runs began with."""

    find: Callable[[Mapping[str, Any]], RunSummary | None] = lambda began: None
    """Takes the field ``began_from`` of a declaration, and returns the earlier run if its rows are at hand, with its
    cost at the price of the report."""
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
            known = self.find(began)
            if known is None:
                amount = None if self.repriced else began["usd"]
                earlier = found.setdefault(run_id, amount)  # the same run may have spent more when a later one began
                found[run_id] = None if amount is None or earlier is None else max(amount, earlier)
            elif run_id not in found:
                found[run_id] = known.billable_usd
                pending.append(known.began_from)
        amounts = [amount for amount in found.values() if amount is not None]
        return math.fsum(amounts) if len(amounts) == len(found) else None


class _CohortFacts:
    """Sums over the runs of a cohort, from which its figures are computed.

    Of further runs of the same trainings, only the cost counts; see :mod:`ledger_lab.reports.groups`.
    """

    def __init__(
        self,
        members: Sequence[RunSummary],
        declared: Cohort | None,
        missing: int | None,
        earlier: EarlierRuns,
        differs_in: Sequence[str] = (),
    ) -> None:
        """Add up the runs of one cohort and yardstick.

        Args:
            members: All runs, oldest first.
            declared: The cohort; ``None`` if it was declared without a size.
            missing: Runs of the whole cohort that were declared and never made; ``None`` without a declared size.
            earlier: Runs whose checkpoints the runs began with.
            differs_in: Declared fields in which the runs differ.
        """
        self.earlier, self.differs_in = earlier, list(differs_in)
        self.members, self.declared, self.missing, self.first = members, declared, missing, members[0]
        kept, repeated = split_repeated(members)
        self.repeated_runs = len(members) - len(kept)
        self.cost = costs.cohort_cost(
            [
                costs.RunCost(
                    run=run.run_id,
                    usd=usd,
                    reached_target=run.target_reached,
                    failed=Status(run.status).failed,
                )
                for run, usd in zip(kept, usd_with_repeated(kept, repeated), strict=True)
            ]
        )
        own = {member.run_id for member in members}
        self.begun_runs = sum(
            member.began_from is not None and member.began_from["run_id"] not in own for member in members
        )
        self.times = sorted(
            (costs.RunTime(wall_s=each.wall_s, to_target_s=each.wall_to_target_s) for each in kept),
            key=lambda run: (run.observed_s, run.wall_s),
        )
        self.median = costs.median_time_to_target(self.times)
        self.mean_s, self.mean_limit_s = costs.restricted_mean_time(self.times)
        self._evaluated = [member for member in members if member.evaluation_afterwards_s is not None]

    @property
    def evaluation_afterwards_s(self) -> float | None:
        """Seconds of stand-alone evaluations of all runs; ``None`` if there was none."""
        return sum(member.evaluation_afterwards_s or 0.0 for member in self._evaluated) if self._evaluated else None

    @property
    def evaluation_afterwards_usd(self) -> float | None:
        """Cost of these evaluations [USD]; ``None`` if there was none, or the cost of one is unknown."""
        amounts = [member.evaluation_afterwards_usd for member in self._evaluated]
        return costs.sum_if_known(amounts) if amounts else None


def _cohort_figure[Value](read: Callable[[_CohortFacts], Value], shown: Shown | None = None) -> Value:
    """Declare a figure of a cohort."""
    return figure(read, shown)


@dataclass(frozen=True, kw_only=True)
class CohortSummary:
    """Cost of the runs that were declared together, per yardstick."""

    cohort: str | None = _cohort_figure(
        lambda of: of.first.cohort, Shown("cohort", "task", cells.cohort_cell, priority=0, align="left")
    )
    """Name of the cohort; ``None`` for runs without a cohort."""
    task: str = _cohort_figure(lambda of: of.first.task)
    measured_by: str = _cohort_figure(lambda of: of.first.measured_by)
    """As that of its runs."""
    panel_id: str = _cohort_figure(lambda of: of.first.panel_id)
    target_success: float = _cohort_figure(lambda of: of.first.target_success)
    runs: int = _cohort_figure(
        lambda of: of.cost.runs, Shown("runs", "made, of those declared", cells.made_cell, priority=1)
    )
    declared_runs: int | None = _cohort_figure(lambda of: of.declared.size if of.declared else None)
    """Declared number of runs, over all tasks; ``None`` if no size was declared."""
    missing_runs: int | None = _cohort_figure(lambda of: of.missing)
    """Declared runs that are missing from the ledger, over all tasks."""
    differs_in: list[str] = _cohort_figure(lambda of: of.differs_in)
    """Declared fields in which its runs differ, although their figures are pooled; those of their seeds and names are
    left out."""
    repeated_runs: int = _cohort_figure(lambda of: of.repeated_runs)
    """Further runs of the same trainings: those that were ended from outside and later repeated with the same training
    seed, and those that made a training again with the same seed and configuration. ``runs`` and the figures of times
    leave them out. Their cost counts with the runs that stand for them."""
    failed_runs: int = _cohort_figure(
        lambda of: of.cost.failed_runs,
        Shown("failed", "of the runs made", lambda cohort: f"{cohort.failed_runs} of {cohort.runs}", priority=3),
    )
    target_reaching_runs: int = _cohort_figure(
        lambda of: of.cost.target_reaching_runs,
        Shown(
            "reached", "of the runs made", lambda cohort: f"{cohort.target_reaching_runs} of {cohort.runs}", priority=2
        ),
    )
    spend_usd: float | None = _cohort_figure(
        lambda of: of.cost.spend_usd, Shown("spent", "all runs, failed ones too", cells.spend_cell, priority=4)
    )
    """Spend of all runs, failed and unfinished ones included [USD]; ``None`` if a run has no price."""
    evaluation_afterwards_s: float | None = _cohort_figure(lambda of: of.evaluation_afterwards_s)
    """Seconds of ``evaluate.py`` on checkpoints of the runs; ``None`` if it never scored them."""
    evaluation_afterwards_usd: float | None = _cohort_figure(lambda of: of.evaluation_afterwards_usd)
    """Cost of that time [USD]. It is not part of ``spend_usd``, nor of the cost per target-reaching checkpoint."""
    begun_runs: int = _cohort_figure(lambda of: of.begun_runs)
    """Runs that began with a checkpoint of a run outside the cohort."""
    before_usd: float | None = _cohort_figure(lambda of: of.earlier.spend_usd(of.members))
    """Spend of the earlier runs: of the runs outside the cohort whose checkpoints its runs began with, directly or
    through further runs, each of them once [USD]. No other figure includes it. ``None`` if it is unknown."""
    runs_of_unknown_energy: int = _cohort_figure(
        lambda of: sum(each.usd_per_hour is not None and each.billable_usd is None for each in of.members)
    )
    """Runs with an hourly price and no cost: their energy is paid on top, and was not measured."""
    usd_per_target_reaching_checkpoint: float | None = _cohort_figure(
        lambda of: of.cost.usd_per_target_reaching_checkpoint,
        Shown(
            "per target-reaching checkpoint", "spent ÷ runs that reached it", cells.cost_per_checkpoint_cell, priority=5
        ),
    )
    """``spend_usd`` ÷ ``target_reaching_runs``."""
    usd_per_target_reaching_checkpoint_interval: tuple[float, float] | None = _cohort_figure(
        lambda of: of.cost.usd_interval
    )
    """95 % interval [USD]; ``None`` for fewer than 5 runs. It counts failures that happen not to be among the runs. If
    no run missed the target, it takes a run that misses it to cost 4 times the costliest run."""
    at_least_usd: float | None = _cohort_figure(lambda of: of.cost.at_least_usd)
    """If no run reached the target: the spend, a lower bound of the cost of a target-reaching checkpoint [USD]."""
    median_wall_to_target_s: float | None = _cohort_figure(
        lambda of: of.median.median_s,
        Shown("median to target", "of all runs made", cells.median_time_cell, priority=6),
    )
    """Median time to the target over all runs, including runs that missed the target [s]. “≈” marks an estimate by
    Kaplan and Meier's method. It assumes that a run that ended early would have continued like the others."""
    median_wall_to_target_is_exact: bool = _cohort_figure(lambda of: of.median.is_exact)
    """Whether that median is exact: no run ended short of the target before it."""
    median_wall_to_target_exceeds_s: float | None = _cohort_figure(lambda of: of.median.more_than_s)
    """Lower bound of that median, if too many runs missed the target [s]."""
    restricted_mean_wall_to_target_s: float = _cohort_figure(
        lambda of: of.mean_s,
        Shown("mean to target", "up to the longest run", cells.mean_time_cell, priority=7),
    )
    """Restricted mean: mean of the time to the target or ``restricted_mean_limit_s``, whichever comes first, over all
    runs [s]; the area under the Kaplan-Meier curve."""
    restricted_mean_limit_s: float = _cohort_figure(lambda of: of.mean_limit_s)
    """Longest time of a run, whether it reached the target or not [s]. Beyond it, the curve is unknown."""
    times: list[costs.RunTime] = _cohort_figure(lambda of: of.times)
    """Time of each run to the target, and its whole time, in ascending order."""
    false_pass_bound: float = _cohort_figure(
        lambda of: false_pass_bound([member.error_budget for member in of.members]),
        Shown("chance of a false pass", "in at least one run", cells.false_pass_cell, priority=8),
    )
    """Highest probability that at least one run confirms a policy below the target: 1 - the product of (1 - its error
    budget) over the runs. A run that began with another run of the cohort counts like any other, although the two share
    one error budget, so that the bound is too high rather than too low."""
    undefined_reason: str | None = _cohort_figure(lambda of: of.cost.undefined_reason)
    """Why there is no cost per target-reaching checkpoint; ``None`` if there is one."""

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return asdict(self)


def missing_runs(declared: Sequence[Cohort], summaries: Sequence[RunSummary]) -> dict[str, int]:
    """Return how many declared runs of each cohort were never made.

    Args:
        declared: Cohorts of declared size.
        summaries: Runs of the ledger, of which those that are repeated do not count.
    """
    repeated = repeated_runs(summaries)
    return {each.name: max(0, each.size - len({*each.run_ids} - repeated)) for each in declared}


def summarize_cohorts(
    summaries: Sequence[RunSummary],
    declared: Sequence[Cohort] = (),
    earlier: EarlierRuns | None = None,
    declarations: Mapping[str, RunDeclared] | None = None,
) -> list[CohortSummary]:
    """Compute the cost of each cohort. Runs with different yardsticks are never added up.

    Args:
        summaries: Runs of a ledger.
        declared: The ledger's cohorts of declared size. They list all their runs, so that a run outside the summaries
            does not count as missing.
        earlier: Runs whose checkpoints the runs began with; by default, only what the declarations record.
        declarations: Declarations of the runs by run id, to name in what they differ; ``None`` to leave that out.

    Returns:
        One summary per cohort and yardstick, in the order of their first runs.
    """
    groups = cohort_groups(summaries)
    by_name, missing = {cohort.name: cohort for cohort in declared}, missing_runs(declared, summaries)
    found = []
    for (name, _), members in groups.items():
        known = {} if declarations is None or name is None else declarations
        named = [settings(known[each.run_id]) for each in members if each.run_id in known]
        facts = _CohortFacts(
            members, by_name.get(name or ""), missing.get(name or ""), earlier or EarlierRuns(), differing(named)
        )
        found.append(summarize(CohortSummary, facts))
    return found
