"""Mirrors of runs in other dashboards, sent by a separate process that reads the journals."""

from ledger_lab.reports.mirrors.follow import JournalEntry, RunFollower
from ledger_lab.reports.mirrors.sink import (
    SINKS,
    Batch,
    Point,
    RunInfo,
    Sink,
    SinkUnavailableError,
    load_sink,
    require_sink,
)
from ledger_lab.reports.mirrors.translate import Translator

__all__ = [
    "SINKS",
    "Batch",
    "JournalEntry",
    "Point",
    "RunInfo",
    "RunFollower",
    "Sink",
    "SinkUnavailableError",
    "Translator",
    "load_sink",
    "require_sink",
]
