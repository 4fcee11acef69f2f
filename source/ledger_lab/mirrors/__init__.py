"""Mirrors of runs in other dashboards, sent by a separate process that reads the journals."""

from ledger_lab.mirrors.follow import Event, RunFollower
from ledger_lab.mirrors.sink import SINKS, Batch, Point, RunFacts, Sink, SinkUnavailableError, load_sink, require_sink
from ledger_lab.mirrors.translate import Translator

__all__ = [
    "SINKS",
    "Batch",
    "Event",
    "Point",
    "RunFacts",
    "RunFollower",
    "Sink",
    "SinkUnavailableError",
    "Translator",
    "load_sink",
    "require_sink",
]
