"""The closed list of row kinds, by their names."""

from __future__ import annotations

from ledger_lab.ledger.declarations import CohortDeclared, RunDeclared
from ledger_lab.ledger.results import CapacityUsed, PanelResult
from ledger_lab.ledger.row import Row
from ledger_lab.ledger.rows import (
    AttemptEnded,
    AttemptStarted,
    CheckpointSaved,
    EvaluationEnded,
    EvaluationStarted,
    Health,
    PhaseWindow,
    ShutdownEnded,
    SupervisionStarted,
)
from ledger_lab.ledger.states import GradientNorms, LearnerHashed, StateRestored, StateSaved
from ledger_lab.ledger.telemetry import Tally, Telemetry, TelemetryStarted

KINDS: dict[str, type[Row]] = {
    kind.__name__: kind
    for kind in (
        CohortDeclared,
        RunDeclared,
        SupervisionStarted,
        TelemetryStarted,
        AttemptStarted,
        PhaseWindow,
        Telemetry,
        Tally,
        Health,
        CheckpointSaved,
        PanelResult,
        CapacityUsed,
        LearnerHashed,
        GradientNorms,
        StateSaved,
        StateRestored,
        AttemptEnded,
        ShutdownEnded,
        EvaluationStarted,
        EvaluationEnded,
    )
}
"""Every kind of row by its name."""
