"""Judging a policy: panels, their identity, their episodes, their scores and the verdict.

The names that this module exports need neither torch nor Isaac Lab. The modules ``slots``, ``view`` and ``scoring`` run
inside a simulation.
"""

from ledger_lab.panels.comparison import Comparison, compare_paired
from ledger_lab.panels.identity import PanelIdentity, differing_fields, few_differences
from ledger_lab.panels.intervals import anytime_interval, lower_bound, wilson_interval
from ledger_lab.panels.panel import Cell, Panel, find_panels, is_panel_file, load_panel
from ledger_lab.panels.verdict import ERROR_BUDGET, RULE_VERSION, VerdictRule

__all__ = [
    "ERROR_BUDGET",
    "Cell",
    "Comparison",
    "Panel",
    "PanelIdentity",
    "VerdictRule",
    "RULE_VERSION",
    "compare_paired",
    "differing_fields",
    "few_differences",
    "is_panel_file",
    "find_panels",
    "load_panel",
    "anytime_interval",
    "lower_bound",
    "wilson_interval",
]
