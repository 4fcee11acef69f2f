"""The task pack: importing this module registers every task with Gymnasium.

Isaac Lab loads it through the entry point group ``isaaclab.tasks``, so its own commands know these tasks too.
"""

from ledger_lab.tasks import ant, cartpole, humanoid, lift, navigation, reach, velocity

__all__ = ["ant", "cartpole", "humanoid", "lift", "navigation", "reach", "velocity"]
