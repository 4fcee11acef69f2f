"""Rows to tables and JSON. Nothing here needs torch or Isaac Lab."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger_lab.reports.cohort_summary import CohortSummary, summarize_cohorts
    from ledger_lab.reports.summary import RunSummary, summarize_run
    from ledger_lab.reports.terminal_table import (
        absent_cohort_lines,
        render_cohort,
        render_report,
        render_repricing,
        render_run,
    )

__all__ = [
    "CohortSummary",
    "RunSummary",
    "absent_cohort_lines",
    "render_cohort",
    "render_report",
    "render_repricing",
    "render_run",
    "summarize_cohorts",
    "summarize_run",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - see the names above
    """Import a name when it is asked for: a training prints to the terminal, and makes no table."""
    for module in ("cohort_summary", "summary", "terminal_table") if name in __all__ else ():
        if hasattr(found := import_module(f"{__name__}.{module}"), name):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
