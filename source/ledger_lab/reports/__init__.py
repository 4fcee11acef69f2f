"""Rows to tables and JSON. Nothing here needs torch or Isaac Lab."""

from ledger_lab.reports.cohort_summary import CohortSummary, summarize_cohorts
from ledger_lab.reports.summary import RunSummary, summarize_run
from ledger_lab.reports.terminal_table import absent_cohort_lines, render_checkpoints, render_report, render_repricing

__all__ = [
    "CohortSummary",
    "RunSummary",
    "absent_cohort_lines",
    "render_checkpoints",
    "render_report",
    "render_repricing",
    "summarize_cohorts",
    "summarize_run",
]
