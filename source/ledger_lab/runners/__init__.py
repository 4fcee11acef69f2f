"""Adapters of RL libraries, behind one protocol, and the simulation session around them.

What this module exports needs neither torch nor Isaac Lab.
"""

from ledger_lab.panels.policy import Policy
from ledger_lab.runners.adapter import Adapter, BatchPlan, Trainer, TrainingObserver, load_adapter

__all__ = ["Adapter", "BatchPlan", "Policy", "Trainer", "TrainingObserver", "load_adapter"]
