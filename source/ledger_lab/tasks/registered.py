"""Registers every task of the pack with Gymnasium, when this module is imported.

Isaac Lab loads it through the entry point group ``isaaclab.tasks``, so its own commands know these tasks too.
"""

from ledger_lab.tasks import ant, cartpole, humanoid, lift, navigation, reach, velocity

__all__ = ["ant", "cartpole", "humanoid", "lift", "navigation", "reach", "velocity"]
