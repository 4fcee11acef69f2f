"""The agents' configurations of the ant, translated from its one recipe."""

from __future__ import annotations

from ledger_lab.recipes.ant import ANT
from ledger_lab.runners.rsl_rl_adapter import native_config


def rsl_rl_cfg() -> object:
    """Return the recipe as Isaac Lab's configuration of RSL-RL."""
    return native_config(ANT)
