"""The tasks of LedgerLab, without Gymnasium: a new one is a folder, and its name here."""

from ledger_lab.tasks import ant, cartpole, cartpole_direct, humanoid, lift, navigation, reach, velocity
from ledger_lab.tasks.registration import TASKS

__all__ = ["TASKS", "ant", "cartpole", "cartpole_direct", "humanoid", "lift", "navigation", "reach", "velocity"]
