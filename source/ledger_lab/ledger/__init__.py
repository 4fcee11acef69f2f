"""What happened: immutable rows in append-only journals, and the reader that makes runs of them."""

from ledger_lab.ledger.journal import Journal
from ledger_lab.ledger.reader import Attempt, Ledger, LedgerDamageError, Run, read_journal, read_ledger
from ledger_lab.ledger.rows import (
    CAPACITY,
    HORIZON,
    NON_FINITE,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    EvaluationEnded,
    EvaluationStarted,
    Outcomes,
    PanelResult,
    PhaseWindow,
    Row,
    RunDeclared,
    Status,
)

__all__ = [
    "CAPACITY",
    "HORIZON",
    "NON_FINITE",
    "Attempt",
    "AttemptEnded",
    "AttemptStarted",
    "CheckpointSaved",
    "EvaluationEnded",
    "EvaluationStarted",
    "Journal",
    "Ledger",
    "LedgerDamageError",
    "Outcomes",
    "PanelResult",
    "PhaseWindow",
    "Row",
    "Run",
    "RunDeclared",
    "Status",
    "read_journal",
    "read_ledger",
]
