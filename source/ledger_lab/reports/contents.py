"""What a report is made of: runs and their figures. Declaring the tables of SQL would take longer than this import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger_lab.ledger import Run
from ledger_lab.reports.cohort_summary import CohortSummary
from ledger_lab.reports.summary import RunSummary


@dataclass(frozen=True)
class Contents:
    """The requested runs of a ledger, with their figures."""

    runs: Sequence[Run]
    summaries: Sequence[RunSummary]
    """One per run, in the same order."""
    cohorts: Sequence[CohortSummary]
