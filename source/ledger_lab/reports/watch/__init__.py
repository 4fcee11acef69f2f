"""Progress of live runs, forecasts of spend, and alerts about what wastes money."""

from ledger_lab.reports.watch.model import (
    CONFIDENCE,
    SCHEMA_VERSION,
    Alert,
    AlertKind,
    Estimate,
    PlannedStudy,
    QueuedTraining,
    RunProgress,
    Severity,
    Spend,
    State,
    Watch,
)
from ledger_lab.reports.watch.view import watch_ledger

__all__ = [
    "CONFIDENCE",
    "SCHEMA_VERSION",
    "Alert",
    "AlertKind",
    "Estimate",
    "PlannedStudy",
    "QueuedTraining",
    "RunProgress",
    "Severity",
    "Spend",
    "State",
    "Watch",
    "watch_ledger",
]
