"""Curves of the time to the target, one per cohort, and tests between cohorts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.ledger import Run, Status
from ledger_lab.ledger.comparability import refused_differences
from ledger_lab.ledger.costs import FEWEST_RUNS, TimeCurve, log_rank_p_value, time_curve
from ledger_lab.reports.cohort_summary import CohortSummary


@dataclass(frozen=True, kw_only=True)
class LogRankTest:
    """A log-rank test between two cohorts."""

    a: int
    """Index of a cohort in :attr:`~ledger_lab.reports.page.model.PageModel.cohorts`."""
    b: int
    """Index of the other cohort."""
    p_value: float
    """Two-sided p-value by permutation."""


def time_curves(cohorts: Sequence[CohortSummary]) -> list[TimeCurve | None]:
    """Return the curve of each cohort; ``None`` for runs without a cohort, which do not belong together.

    Args:
        cohorts: The cohorts.
    """
    return [None if cohort.cohort is None else time_curve(cohort.times) for cohort in cohorts]


def log_rank_tests(cohorts: Sequence[CohortSummary], runs: Sequence[Run]) -> list[LogRankTest]:
    """Test between the two cohorts of each yardstick that has exactly two cohorts.

    Cohorts that ``report.py --compare`` refuses to compare are not tested. With more cohorts, one test per pair would
    find differences by chance; ``study.py`` corrects for their number. With fewer than
    :data:`~ledger_lab.ledger.costs.FEWEST_RUNS` runs in a cohort, there is no test.

    Args:
        cohorts: The cohorts.
        runs: All runs.
    """
    groups: dict[str, list[int]] = {}
    for place, cohort in enumerate(cohorts):
        if cohort.cohort is not None:
            groups.setdefault(cohort.measured_by, []).append(place)
    tests = []
    for places in groups.values():
        if len(places) != 2 or min(cohorts[place].runs for place in places) < FEWEST_RUNS:
            continue
        a, b = places
        ours, theirs = ([run for run in runs if run.cohort == cohorts[place].cohort] for place in places)
        running = any(run.attempts and run.attempts[-1].status is Status.RUNNING for run in (*ours, *theirs))
        if running or refused_differences([run.declared for run in ours], [run.declared for run in theirs]):
            continue
        p_value = log_rank_p_value(cohorts[a].times, cohorts[b].times)
        if p_value is not None:
            tests.append(LogRankTest(a=a, b=b, p_value=p_value))
    return tests
