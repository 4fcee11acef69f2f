"""Rows to tables and JSON. Nothing here needs torch or Isaac Lab."""

from ledger_lab.reports.summary import CohortSummary, RunSummary, summarize_cohorts, summarize_run
from ledger_lab.reports.table import render_checkpoints, render_report

__all__ = ["CohortSummary", "RunSummary", "render_checkpoints", "render_report", "summarize_cohorts", "summarize_run"]
