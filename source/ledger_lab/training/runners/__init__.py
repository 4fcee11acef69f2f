"""Adapters of RL libraries, behind one protocol, and the simulation session around them.

What this module exports needs neither torch nor Isaac Lab.
"""

from ledger_lab.panels.policy import Policy
from ledger_lab.training.runners.adapter import (
    Adapter,
    BatchPlan,
    OnIteration,
    RecordCheckpoint,
    Trainer,
    load_adapter,
)

__all__ = ["Adapter", "BatchPlan", "OnIteration", "Policy", "RecordCheckpoint", "Trainer", "load_adapter"]
