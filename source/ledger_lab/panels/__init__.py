"""Scoring policies: panels, their identity, their episodes, their scores and the verdict.

The names that this module exports need neither torch nor Isaac Lab. The modules ``slots``, ``view`` and ``scoring`` run
inside a simulation.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger_lab.panels.comparison import Comparison, ProvenComparison, compare_paired, compare_proven
    from ledger_lab.panels.identity import PanelIdentity, differing_fields, few_differences
    from ledger_lab.panels.intervals import ProvenShare, wilson_interval
    from ledger_lab.panels.panel import Cell, Panel, find_panels, is_panel_file, load_panel
    from ledger_lab.panels.verdict import ERROR_BUDGET, RULE_VERSION, VerdictRule

__all__ = [
    "ERROR_BUDGET",
    "RULE_VERSION",
    "Cell",
    "Comparison",
    "ProvenComparison",
    "ProvenShare",
    "Panel",
    "PanelIdentity",
    "VerdictRule",
    "compare_proven",
    "compare_paired",
    "differing_fields",
    "few_differences",
    "is_panel_file",
    "find_panels",
    "load_panel",
    "wilson_interval",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: a report needs only intervals, and no NumPy."""
    for module in ("intervals", "identity", "panel", "comparison", "verdict") if name in __all__ else ():
        if hasattr(found := import_module(f"{__name__}.{module}"), name):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
