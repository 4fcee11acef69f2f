"""Figures of a cohort, computed from those of its runs, and of the runs that they began with.

Some runs of a cohort do not count, because another run made the same training. There are two cases. Something outside
of a run ended it, and a later run with the same seed and configuration repeats it, possibly on another machine. Or an
earlier run made the same training, with the same code on the same machine: the second one takes the same steps, and
shows nothing new. The cost of such a run is added to that of the run that counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ledger_lab.ledger import Cohort, LedgerDamageError, Run, Status
from ledger_lab.ledger.comparability import differing
from ledger_lab.ledger.costs.cohorts import FEWEST_RUNS, RunCost, cohort_cost
from ledger_lab.ledger.costs.model import sum_if_known
from ledger_lab.ledger.costs.prices import Price
from ledger_lab.ledger.costs.time_to_target import RunTime, median_time_to_target, restricted_mean_time
from ledger_lab.ledger.find import find_run
from ledger_lab.panels.intervals import false_pass_bound
from ledger_lab.reports.columns import Shown, TableCell, figure, summarize
from ledger_lab.reports.summary import RunSummary, priced, summarize_run
from ledger_lab.units import counted, duration, percent, usd


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


@dataclass(frozen=True)
class Contents:
    """The requested runs of a ledger, with their figures."""

    runs: Sequence[Run]
    summaries: Sequence[RunSummary]
    """One per run, in the same order."""
    cohorts: Sequence[CohortSummary]


@dataclass(frozen=True)
class EarlierRuns:
    """Where to find the runs whose checkpoints other runs began with."""

    runs: Mapping[str, Run] = field(default_factory=dict)
    """Runs at hand, by their ids; with any, those of pretrained policies are found, too."""
    price: Price | None = None
    """Price that replaces the declared prices."""
    damaged: dict[str, LedgerDamageError] = field(default_factory=dict)
    """Earlier runs whose rows turned out to be damaged, by their ids; they are not at hand."""

    def spend_usd(self, members: Sequence[RunSummary]) -> float | None:
        """Return the spend of all earlier runs of some runs, each of them once [USD].

        If the rows of an earlier run are not at hand, its spend is what the declaration of the later run records. That
        spend was computed at the declared prices, and includes the runs that are earlier still.

        Args:
            members: The runs that began with checkpoints.

        Returns:
            0 if there is none; ``None`` if the spend of one of them is unknown, or unknown at the requested price.
        """
        done = {member.run_id for member in members}
        found: dict[str, float | None] = {}
        pending = [member.began_from for member in members]
        while pending:
            began = pending.pop()
            if began is None or (run_id := began["run_id"]) in done:
                continue
            if (known := self._summary(began)) is None:
                amount = None if self.price is not None else began["usd"]
                earlier = found.setdefault(run_id, amount)  # the same run may have spent more when a later one began
                found[run_id] = None if amount is None or earlier is None else max(amount, earlier)
            else:
                found[run_id] = known.billable_usd
                pending.append(known.began_from)
                done.add(run_id)
        amounts = [amount for amount in found.values() if amount is not None]
        return math.fsum(amounts) if len(amounts) == len(found) else None

    def _summary(self, began: Mapping[str, Any]) -> RunSummary | None:
        """Return the figures of the run of a checkpoint; ``None`` if its rows are not at hand."""
        try:
            run = None if began["run_id"] in self.damaged else self._find(began)
            return None if run is None else summarize_run(run, self.price)
        except LedgerDamageError as error:
            self.damaged[began["run_id"]] = error.with_traceback(None)
            return None

    def _find(self, began: Mapping[str, Any]) -> Run | None:
        """Return the run of a checkpoint; ``None`` if its rows are not at hand."""
        if not self.runs or began["run_id"] in self.runs:
            return self.runs.get(began["run_id"])
        from ledger_lab.tasks.pretrained import ROOT, shipped_tasks  # few runs begin with a pretrained policy

        shipped = find_run(str(ROOT / began["task"]), ROOT) if began["task"] in shipped_tasks() else None
        return shipped if shipped is not None and shipped.run_id == began["run_id"] else None


class _CohortFacts:
    """Sums over the runs of a cohort, from which its figures are computed.

    Of further runs of the same trainings, only the cost counts; see :mod:`ledger_lab.reports.cohort_summary`.
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
        self.cost = cohort_cost(
            [
                RunCost(
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
            (RunTime(wall_s=each.wall_s, to_target_s=each.wall_to_target_s) for each in kept),
            key=lambda run: (run.observed_s, run.wall_s),
        )
        self.median = median_time_to_target(self.times)
        self.mean_s, self.mean_limit_s = restricted_mean_time(self.times)
        self._evaluated = [member for member in members if member.evaluation_afterwards_s is not None]

    @property
    def evaluation_afterwards_s(self) -> float | None:
        """Seconds of stand-alone evaluations of all runs; ``None`` if there was none."""
        return sum(member.evaluation_afterwards_s or 0.0 for member in self._evaluated) if self._evaluated else None

    @property
    def evaluation_afterwards_usd(self) -> float | None:
        """Cost of these evaluations [USD]; ``None`` if there was none, or the cost of one is unknown."""
        amounts = [member.evaluation_afterwards_usd for member in self._evaluated]
        return sum_if_known(amounts) if amounts else None


def _cohort_figure[Value](read: Callable[[_CohortFacts], Value], shown: Shown | None = None) -> Value:
    """Declare a figure of a cohort."""
    return figure(read, shown)


def _cohort_cell(cohort: CohortSummary) -> TableCell:
    """Return a cohort's name and its task."""
    return TableCell(cohort.cohort or "in no cohort", details=(cohort.task,))


def _made_cell(cohort: CohortSummary) -> TableCell:
    """Return how many runs were made, how many earlier ones they repeat, and how many declared ones are missing."""
    made = f"{cohort.runs}" if cohort.declared_runs is None else f"{cohort.runs} of {cohort.declared_runs}"
    missing = f"{cohort.missing_runs} missing" if cohort.missing_runs else ""
    repeated = f"+ {cohort.repeated_runs} repeated" if cohort.repeated_runs else ""
    differs = f"they differ in {', '.join(cohort.differs_in)}" if cohort.differs_in else ""
    return TableCell(made, details=tuple(filter(None, (repeated, missing, differs))), style="bad" if missing else "")


def _reached_cell(cohort: CohortSummary) -> TableCell:
    """Return how many runs reached the target, and how many failed."""
    failed = f"({cohort.failed_runs} failed)" if cohort.failed_runs else ""
    return TableCell(f"{cohort.target_reaching_runs} of {cohort.runs}", failed)


def spend_cell(cohort: CohortSummary) -> TableCell:
    """Return the cost of all runs together; apart from it, that of earlier runs and of evaluations afterwards."""
    unknown, details = cohort.runs_of_unknown_energy > 0, []
    if cohort.evaluation_afterwards_s is not None:
        energy_is_unknown = unknown or cohort.spend_usd is not None
        cost = priced(cohort.evaluation_afterwards_usd, energy_is_unknown=energy_is_unknown)
        details.append(f"evaluation afterwards: {duration(cohort.evaluation_afterwards_s)}, {cost}")
    before = _before_words(cohort) if cohort.begun_runs else ""
    return TableCell(priced(cohort.spend_usd, energy_is_unknown=unknown), before, tuple(details))


def _before_words(cohort: CohortSummary, checkpoints: int = 1) -> str:
    """Return the cost of the earlier runs in words, such as "+ $0.25 before".

    Args:
        cohort: The cohort.
        checkpoints: Number of checkpoints that share this cost.
    """
    return f"+ {'unpriced' if cohort.before_usd is None else usd(cohort.before_usd / checkpoints)} before"


def _cost_per_checkpoint_cell(cohort: CohortSummary) -> TableCell:
    """Return the cost per target-reaching checkpoint with its interval, or why there is none."""
    if cohort.usd_per_target_reaching_checkpoint is not None:
        interval, beside = cohort.usd_per_target_reaching_checkpoint_interval, []
        if cohort.begun_runs:
            beside.append(_before_words(cohort, cohort.target_reaching_runs))
        if interval is not None:
            beside.append(f"[{usd(interval[0])}, {usd(interval[1])}]")
        details = (f"no interval below {FEWEST_RUNS} runs",) if interval is None and cohort.runs > 1 else ()
        return TableCell(usd(cohort.usd_per_target_reaching_checkpoint), " ".join(beside), details)
    if cohort.spend_usd is not None:
        return TableCell(f"undefined, ≥ {usd(cohort.spend_usd)} spent")
    if unknown := cohort.runs_of_unknown_energy:
        reason = f"the energy of {counted(unknown, 'run')} is unknown: set power_w for your own hardware"
    else:
        reason = "name an --instance or give --usd_per_hour"
    return TableCell("unpriced", details=(reason,))


def median_time_cell(cohort: CohortSummary) -> str:
    """Return the median time to target; “≈” marks an estimate, “>” a lower bound."""
    if cohort.median_wall_to_target_s is None:
        return f"> {duration(cohort.median_wall_to_target_exceeds_s)}"
    return ("" if cohort.median_wall_to_target_is_exact else "≈ ") + duration(cohort.median_wall_to_target_s)


def _mean_time_cell(cohort: CohortSummary) -> TableCell:
    """Return the restricted mean time to target, and the time that it is restricted to."""
    return TableCell(
        duration(cohort.restricted_mean_wall_to_target_s),
        details=(f"up to {duration(cohort.restricted_mean_limit_s)}",),
    )


def _false_pass_cell(cohort: CohortSummary) -> str:
    """Return the highest probability that at least one run proves a policy below the target."""
    return f"≤ {percent(cohort.false_pass_bound)}"


@dataclass(frozen=True, kw_only=True)
class CohortSummary:
    """Cost of the runs that were declared together, per yardstick."""

    cohort: str | None = _cohort_figure(
        lambda of: of.first.cohort, Shown("cohort", "task", _cohort_cell, priority=0, align="left")
    )
    """Name of the cohort; ``None`` for runs without a cohort."""
    task: str = _cohort_figure(lambda of: of.first.task)
    measured_by: str = _cohort_figure(lambda of: of.first.measured_by)
    """As that of its runs."""
    panel_id: str = _cohort_figure(lambda of: of.first.panel_id)
    target_success: float = _cohort_figure(lambda of: of.first.target_success)
    runs: int = _cohort_figure(
        lambda of: of.cost.runs, Shown("runs", "made, of those declared", _made_cell, priority=5)
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
    failed_runs: int = _cohort_figure(lambda of: of.cost.failed_runs)
    target_reaching_runs: int = _cohort_figure(
        lambda of: of.cost.target_reaching_runs, Shown("reached", "of the runs made", _reached_cell, priority=1)
    )
    spend_usd: float | None = _cohort_figure(
        lambda of: of.cost.spend_usd, Shown("spent", "all runs, failed ones too", spend_cell, priority=4)
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
        Shown("$ per success (95 %)", "spent ÷ runs that reached the target", _cost_per_checkpoint_cell, priority=3),
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
        Shown("median time", "to the target, of all runs made", median_time_cell, priority=2),
    )
    """Median time to the target over all runs, including runs that missed the target [s]. “≈” marks an estimate by
    Kaplan and Meier's method. It assumes that a run that ended early would have continued like the others."""
    median_wall_to_target_is_exact: bool = _cohort_figure(lambda of: of.median.is_exact)
    """Whether that median is exact: no run ended short of the target before it."""
    median_wall_to_target_exceeds_s: float | None = _cohort_figure(lambda of: of.median.more_than_s)
    """Lower bound of that median, if too many runs missed the target [s]."""
    restricted_mean_wall_to_target_s: float = _cohort_figure(
        lambda of: of.mean_s,
        Shown("mean time", "to the target, up to the longest run", _mean_time_cell, priority=6),
    )
    """Restricted mean: mean of the time to the target or ``restricted_mean_limit_s``, whichever comes first, over all
    runs [s]; the area under the Kaplan-Meier curve."""
    restricted_mean_limit_s: float = _cohort_figure(lambda of: of.mean_limit_s)
    """Longest time of a run, whether it reached the target or not [s]. Beyond it, the curve is unknown."""
    times: list[RunTime] = _cohort_figure(lambda of: of.times)
    """Time of each run to the target, and its whole time, in ascending order."""
    false_pass_bound: float = _cohort_figure(
        lambda of: false_pass_bound([member.error_budget for member in of.members]),
        Shown("false pass", "in at least one run", _false_pass_cell, priority=7),
    )
    """Highest probability that at least one run proves a policy below the target: 1 - the product of (1 - its error
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
    declared_settings: Mapping[str, Mapping[str, str]] | None = None,
) -> list[CohortSummary]:
    """Compute the cost of each cohort. Runs with different yardsticks are never added up.

    Args:
        summaries: Runs of a ledger.
        declared: The ledger's cohorts of declared size. They list all their runs, so that a run outside the summaries
            does not count as missing.
        earlier: Runs whose checkpoints the runs began with; by default, only what the declarations record.
        declared_settings: The :func:`~ledger_lab.ledger.comparability.settings` of the runs by run id, to name in what
            they differ; ``None`` to leave that out.

    Returns:
        One summary per cohort and yardstick, in the order of their first runs.
    """
    groups = cohort_groups(summaries)
    by_name, missing = {cohort.name: cohort for cohort in declared}, missing_runs(declared, summaries)
    found = []
    for (name, _), members in groups.items():
        known = {} if declared_settings is None or name is None else declared_settings
        named = [known[each.run_id] for each in members if each.run_id in known]
        facts = _CohortFacts(
            members, by_name.get(name or ""), missing.get(name or ""), earlier or EarlierRuns(), differing(named)
        )
        found.append(summarize(CohortSummary, facts))
    return found
