"""Scoring policies: panels, their identity, their episodes, their scores and the verdict.

The names that this module exports need neither torch nor Isaac Lab. The modules ``slots``, ``view`` and ``scoring`` run
inside a simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger_lab.ledger.costs.few_runs import lower_bound
from ledger_lab.panels.comparison import Comparison, ConfirmedComparison, compare_confirmed, compare_paired
from ledger_lab.panels.identity import PanelIdentity, differing_fields, few_differences
from ledger_lab.panels.intervals import ConfirmedShare, wilson_interval
from ledger_lab.panels.panel import Cell, Panel, find_panels, is_panel_file, load_panel

if TYPE_CHECKING:
    from ledger_lab.panels.verdict import ERROR_BUDGET, RULE_VERSION, VerdictRule

__all__ = [
    "ERROR_BUDGET",
    "RULE_VERSION",
    "Cell",
    "Comparison",
    "ConfirmedComparison",
    "ConfirmedShare",
    "Panel",
    "PanelIdentity",
    "VerdictRule",
    "compare_confirmed",
    "compare_paired",
    "differing_fields",
    "few_differences",
    "is_panel_file",
    "find_panels",
    "load_panel",
    "lower_bound",
    "wilson_interval",
]


def __getattr__(name: str) -> Any:
    """Import the verdict when it is asked for: it needs NumPy, and a report does not."""
    if name not in ("ERROR_BUDGET", "RULE_VERSION", "VerdictRule"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ledger_lab.panels import verdict

    return getattr(verdict, name)
