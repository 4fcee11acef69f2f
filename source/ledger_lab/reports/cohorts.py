"""Cohorts in the terminal: their cost, and their missing runs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ledger_lab.ledger import Cohort
from ledger_lab.reports.cells import (
    NO_INTERVAL,
    before_words,
    cohort_evaluation_afterwards,
    false_pass_cell,
    median_time_cell,
    usd_interval,
)
from ledger_lab.reports.cohort_summary import CohortSummary
from ledger_lab.units import duration, usd


def cohort_line(cohort: CohortSummary) -> Text:
    """Return the cost and the time of a cohort in one line.

    Args:
        cohort: The cohort.
    """
    runs = _count(cohort.runs, "run")
    if cohort.missing_runs:
        runs += f" ({cohort.missing_runs} of {cohort.declared_runs} declared runs missing)"
    elif cohort.declared_runs is not None:
        runs += f" of {cohort.declared_runs} declared"
    if cohort.repeated_runs:
        runs += f" ({cohort.repeated_runs} more of the same trainings)"
    parts = [f"{runs}, {cohort.target_reaching_runs} reached the target, {cohort.failed_runs} failed"]
    if cohort.spend_usd is not None:
        parts.append(" ".join(filter(None, (f"{usd(cohort.spend_usd)} spent", before_words(cohort)))))
    parts.append(_cost(cohort))
    if (apart := cohort_evaluation_afterwards(cohort)) is not None:
        parts.append(apart)
    if cohort.runs > 1:
        parts.append(f"median to target {median_time_cell(cohort)}")
        if cohort.target_reaching_runs:
            mean_s, limit_s = cohort.restricted_mean_wall_to_target_s, cohort.restricted_mean_limit_s
            parts.append(f"mean up to {duration(limit_s)}: {duration(mean_s)}")
            parts.append(f"chance of a false pass in at least one run {false_pass_cell(cohort)}")
    if cohort.differs_in:
        parts.append(f"its runs differ in {', '.join(cohort.differs_in)}")
    name = f"cohort {cohort.cohort}: " if cohort.cohort else ""
    return Text(name + " · ".join(parts), style="yellow" if cohort.missing_runs else "")


def absent_cohort_lines(cohorts: Sequence[Cohort]) -> list[Text]:
    """Return one line for each declared cohort that has no run.

    Args:
        cohorts: Cohorts of declared size.
    """
    return [
        Text(f"cohort {cohort.name}: {cohort.size} of {_count(cohort.size, 'declared run')} missing", style="yellow")
        for cohort in cohorts
        if not cohort.run_ids
    ]


def _cost(cohort: CohortSummary) -> str:
    """Return the cost per target-reaching checkpoint."""
    if cohort.usd_per_target_reaching_checkpoint is not None:
        within = cohort.usd_per_target_reaching_checkpoint_interval
        shown = f" {usd_interval(*within)} (95 %)" if within is not None else ""
        note = f" ({NO_INTERVAL})" if within is None and cohort.runs > 1 else ""
        if before := before_words(cohort, cohort.target_reaching_runs):
            shown += f" {before}"
        return f"{usd(cohort.usd_per_target_reaching_checkpoint)}{shown} per target-reaching checkpoint{note}"
    if cohort.at_least_usd is not None:
        return f"cost per target-reaching checkpoint undefined, ≥ {usd(cohort.at_least_usd)} spent"
    if cohort.runs_of_unknown_energy:
        return "unpriced: energy is paid on top, and was not measured: set power_w for your own hardware"
    return "unpriced: name an --instance or give --usd_per_hour"


def _count(number: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
