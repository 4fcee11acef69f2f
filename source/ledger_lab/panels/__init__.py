"""Where a policy is judged: panels, their identity, their episodes and their scores.

What this module exports needs neither torch nor Isaac Lab; ``episodes`` and ``scoring`` run inside a simulation.
"""

from ledger_lab.panels.identity import PanelIdentity, differing_fields
from ledger_lab.panels.intervals import wilson_interval
from ledger_lab.panels.panel import Cell, Panel, find_panels, load_panel
from ledger_lab.panels.seeds import episode_stream
from ledger_lab.panels.verdict import reaches_target

__all__ = [
    "Cell",
    "Panel",
    "PanelIdentity",
    "differing_fields",
    "episode_stream",
    "find_panels",
    "load_panel",
    "reaches_target",
    "wilson_interval",
]
