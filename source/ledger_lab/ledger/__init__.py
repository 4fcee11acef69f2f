"""Immutable rows in append-only journals, and the reader that builds runs from them."""

from ledger_lab.ledger.cohorts import cohort_journal, declare_cohort, require_cohort_name
from ledger_lab.ledger.content import JournalContent, read_journal
from ledger_lab.ledger.declarations import CohortDeclared, RunDeclared, Timing
from ledger_lab.ledger.journal import Journal
from ledger_lab.ledger.listing import LedgerDamageError, find_journals
from ledger_lab.ledger.reader import read_ledger
from ledger_lab.ledger.results import (
    CAPACITY,
    HORIZON,
    NON_FINITE,
    UNSTABLE,
    CapacityUsed,
    Outcomes,
    PanelResult,
)
from ledger_lab.ledger.row import Row
from ledger_lab.ledger.rows import (
    FIGURES,
    STATE_FILE,
    Anchor,
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    EvaluationEnded,
    EvaluationStarted,
    GradientNorms,
    Health,
    LearnerHashed,
    PhaseWindow,
    SchedulerJob,
    ShutdownEnded,
    StateRestored,
    StateSaved,
    Status,
    SupervisionStarted,
)
from ledger_lab.ledger.runs import Attempt, Cohort, Evaluation, Ledger, Run
from ledger_lab.ledger.sums import WindowSums
from ledger_lab.ledger.telemetry import DeviceSample, EnergyReading, HostSample, Telemetry, TelemetryStarted

__all__ = [
    "CAPACITY",
    "FIGURES",
    "HORIZON",
    "NON_FINITE",
    "STATE_FILE",
    "UNSTABLE",
    "Anchor",
    "Attempt",
    "AttemptEnded",
    "AttemptStarted",
    "CapacityUsed",
    "CheckpointSaved",
    "Cohort",
    "CohortDeclared",
    "DeviceSample",
    "EnergyReading",
    "Evaluation",
    "EvaluationEnded",
    "EvaluationStarted",
    "GradientNorms",
    "Health",
    "HostSample",
    "Journal",
    "JournalContent",
    "LearnerHashed",
    "Ledger",
    "LedgerDamageError",
    "Outcomes",
    "PanelResult",
    "PhaseWindow",
    "Row",
    "Run",
    "RunDeclared",
    "SchedulerJob",
    "ShutdownEnded",
    "StateRestored",
    "StateSaved",
    "Status",
    "SupervisionStarted",
    "Telemetry",
    "TelemetryStarted",
    "Timing",
    "WindowSums",
    "cohort_journal",
    "declare_cohort",
    "find_journals",
    "read_journal",
    "read_ledger",
    "require_cohort_name",
]
