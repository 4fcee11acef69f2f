"""Rows to tables and JSON. Nothing here needs torch or Isaac Lab."""

from ledger_lab.reports.advice import Advice
from ledger_lab.reports.bottleneck import Bottleneck, find_bottlenecks
from ledger_lab.reports.summary import CohortSummary, RunSummary, summarize_cohorts, summarize_run
from ledger_lab.reports.table import render_checkpoints, render_report

__all__ = [
    "Advice",
    "Bottleneck",
    "CohortSummary",
    "RunSummary",
    "find_bottlenecks",
    "render_checkpoints",
    "render_report",
    "summarize_cohorts",
    "summarize_run",
]
